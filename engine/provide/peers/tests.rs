use std::{net::IpAddr, sync::Arc};

use futures_util::FutureExt;

use super::{super::Limits, Peers};

fn peers(unsent_bytes: usize) -> Peers {
    Peers::new(&Limits {
        unsent_bytes,
        ..Limits::default()
    })
}

fn at(text: &str) -> IpAddr {
    text.parse().expect("it is an address")
}

#[test]
fn an_address_is_one_peer_as_long_as_it_is_there() {
    let peers = peers(80);
    let here = peers.at(at("192.0.2.1"));
    assert!(Arc::ptr_eq(&here, &peers.at(at("::ffff:192.0.2.1"))));
    assert!(!Arc::ptr_eq(&here, &peers.at(at("192.0.2.2"))));
    let network = peers.at(at("2001:db8::1"));
    assert!(Arc::ptr_eq(&network, &peers.at(at("2001:db8::ffff:1"))));
    assert!(!Arc::ptr_eq(&network, &peers.at(at("2001:db8:0:1::1"))));
    drop((here, network));
    // Nothing is kept of those who are gone.
    let _another = peers.at(at("192.0.2.3"));
    assert_eq!(peers.known.lock().expect("it is whole").len(), 1);
}

#[test]
fn results_wait_for_those_before_them_and_leave_room_for_others() {
    let peers = peers(80);
    let (first, second) = (peers.at(at("192.0.2.1")), peers.at(at("192.0.2.2")));
    let [a, b] = [(); 2].map(|()| peers.unsent(&first, true));
    let c = peers.unsent(&second, true);
    let has_room = |it: Option<()>| it.is_some();
    assert!(has_room(a.add(60).now_or_never()));
    // The share of an address is the same for all its connections.
    assert!(!has_room(b.add(11).now_or_never()) && has_room(b.add(10).now_or_never()));
    assert!(has_room(c.add(10).now_or_never()) && !has_room(c.add(1).now_or_never()));
    a.take(20);
    assert!(has_room(c.add(20).now_or_never()));
    // No more is given back than was there, and all of it where somebody goes.
    b.take(1000);
    drop(a);
    // One that is larger than all there is waits until there is nothing else.
    assert!(!has_room(b.add(1000).now_or_never()));
    drop(c);
    assert!(has_room(b.add(1000).now_or_never()));
    assert!(!has_room(peers.unsent(&first, true).add(1).now_or_never()));
    // Where nobody sees what is taken, nobody waits for it.
    assert!(has_room(peers.unsent(&first, false).add(1).now_or_never()));
}
