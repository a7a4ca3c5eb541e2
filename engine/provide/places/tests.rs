use std::{net::Ipv4Addr, sync::Arc};

use super::{super::Limits, Peers, Place, Places};

fn places(most: usize) -> Arc<Places> {
    Places::new(most, 100, Peers::new(&Limits::default()))
}

/// One who comes from the address with this number.
fn from(places: &Arc<Places>, number: u8) -> Option<Place> {
    places.enter(Ipv4Addr::new(192, 0, 2, number).into(), true)
}

impl Place {
    /// The only one there is.
    pub(in super::super) fn alone() -> Place {
        from(&places(1), 1).expect("there is room")
    }
}

fn is_lost(place: &Place) -> bool {
    place.lost.is_cancelled()
}

#[test]
fn whoever_has_had_nothing_to_do_for_the_longest_time_goes_first() {
    let places = places(3);
    let [a, b, c] = [(); 3].map(|()| from(&places, 1).expect("there is room"));
    // The first has done something since.
    drop(a.work());
    let d = from(&places, 1).expect("somebody goes");
    assert!(is_lost(&b) && !is_lost(&a) && !is_lost(&c));
    // A place that is given up is free, and one that is lost already frees none.
    drop(b);
    drop(c);
    let e = from(&places, 1).expect("there is room");
    assert!(!is_lost(&a) && !is_lost(&d) && !is_lost(&e));
}

#[test]
fn nobody_who_was_let_in_goes_for_a_crowd_that_was_not() {
    let places = places(3);
    let guest = from(&places, 1).expect("there is room");
    guest.let_in();
    let crowd = (0..100).map(|_| from(&places, 1).expect("somebody of the crowd goes"));
    let crowd: Vec<Place> = crowd.collect();
    assert!(!is_lost(&guest));
    assert_eq!(crowd.iter().filter(|it| !is_lost(it)).count(), 2);
}

#[test]
fn nobody_goes_who_has_something_to_do() {
    let places = places(2);
    let [a, b] = [(); 2].map(|()| from(&places, 1).expect("there is room"));
    let (of_a, of_b) = (a.work(), [b.work(), b.work()]);
    assert!(from(&places, 1).is_none());
    let [first, second] = of_b;
    drop(first);
    assert!(from(&places, 1).is_none());
    drop(second);
    let c = from(&places, 1).expect("somebody has nothing to do");
    assert!(is_lost(&b) && !is_lost(&a) && !is_lost(&c));
    drop(of_a);
}

#[test]
fn whoever_holds_more_than_a_share_goes_where_it_is_too_much_together() {
    let places = places(4);
    let [a, b, c] = [(); 3].map(|()| from(&places, 1).expect("there is room"));
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

#[test]
fn those_at_one_address_cannot_keep_others_out() {
    let places = places(16);
    let greedy = (0..14).map(|_| from(&places, 1).expect("there is room"));
    let mut greedy: Vec<Place> = greedy.collect();
    let busy: Vec<_> = greedy.iter().map(Place::work).collect();
    assert!(from(&places, 1).is_none(), "that is its share");
    let [a, b] = [2, 3].map(|it| from(&places, it).expect("the rest is for others"));
    // Beyond its share it puts out its own and nobody else, however long others have done nothing.
    assert!(from(&places, 1).is_none());
    drop(busy);
    greedy.push(from(&places, 1).expect("one of its own goes"));
    assert!(is_lost(&greedy[0]) && !is_lost(&a) && !is_lost(&b));
    let c = from(&places, 4).expect("whoever has done nothing for the longest time goes");
    assert!(is_lost(&a) && !is_lost(&b) && !is_lost(&c));
}
