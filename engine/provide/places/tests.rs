use std::sync::Arc;

use super::{Place, Places};

fn places(most: usize) -> Arc<Places> {
    Places::new(most, 100)
}

fn is_lost(place: &Place) -> bool {
    place.lost.is_cancelled()
}

#[test]
fn whoever_has_had_nothing_to_do_for_the_longest_time_goes_first() {
    let places = places(3);
    let [a, b, c] = [(); 3].map(|()| places.enter().expect("there is room"));
    // The first has done something since.
    drop(a.work());
    let d = places.enter().expect("somebody goes");
    assert!(is_lost(&b) && !is_lost(&a) && !is_lost(&c));
    // A place that is given up is free, and one that is lost already frees none.
    drop(b);
    drop(c);
    let e = places.enter().expect("there is room");
    assert!(!is_lost(&a) && !is_lost(&d) && !is_lost(&e));
}

#[test]
fn nobody_who_was_let_in_goes_for_a_crowd_that_was_not() {
    let places = places(3);
    let guest = places.enter().expect("there is room");
    guest.let_in();
    let crowd = (0..100).map(|_| places.enter().expect("somebody of the crowd goes"));
    let crowd: Vec<Place> = crowd.collect();
    assert!(!is_lost(&guest));
    assert_eq!(crowd.iter().filter(|it| !is_lost(it)).count(), 2);
}

#[test]
fn nobody_goes_who_has_something_to_do() {
    let places = places(2);
    let [a, b] = [(); 2].map(|()| places.enter().expect("there is room"));
    let (of_a, of_b) = (a.work(), [b.work(), b.work()]);
    assert!(places.enter().is_none());
    let [first, second] = of_b;
    drop(first);
    assert!(places.enter().is_none());
    drop(second);
    let c = places.enter().expect("somebody has nothing to do");
    assert!(is_lost(&b) && !is_lost(&a) && !is_lost(&c));
    drop(of_a);
}

#[test]
fn whoever_holds_more_than_a_share_goes_where_it_is_too_much_together() {
    let places = places(4);
    let [a, b, c] = [(); 3].map(|()| places.enter().expect("there is room"));
    assert!(a.held().add(60), "the others hold nothing");
    assert!(b.held().add(25) && c.held().add(15));
    // All that there is is held: a share is there for anybody, and no more.
    assert!(c.held().add(10) && !c.held().add(1) && !a.held().add(1));
    a.held().take(50);
    assert!(a.held().add(1) && c.held().add(1));
    // No more is given back than was there, and all of it where somebody goes.
    b.held().take(1000);
    drop((a, c));
    assert!(b.held().add(100) && !b.held().add(1));
}
