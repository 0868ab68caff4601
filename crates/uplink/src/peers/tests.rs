use super::stations::{STATION_AGE, STATION_STAYS, STATIONS_MAX};
use super::*;

const VNI: Vni = Vni::new(5).unwrap();

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn tunnel(peers: &[&str]) -> Peers {
    let mut table = Peers::new(address("192.0.2.1:4789"), Channel::Rest);
    for peer in peers {
        table.add(address(peer)).unwrap();
    }
    table
}

fn station(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

#[test]
fn peers_are_checked() {
    let mut peers = tunnel(&["192.0.2.2:4789"]);
    for bad in [
        "192.0.2.1:4789",
        "192.0.2.3:0",
        "0.0.0.0:1",
        "224.0.0.1:1",
        "255.255.255.255:1",
    ] {
        assert_eq!(
            peers.add(address(bad)),
            Err(PeerError::NotAHost(address(bad)))
        );
    }
    let again = address("192.0.2.2:4789");
    assert_eq!(peers.add(again), Err(PeerError::Duplicate(again)));
    assert!(matches!(
        peers.add(address("[fd00::2]:4789")),
        Err(PeerError::Family { .. })
    ));
    for host in 0..PEERS_MAX - 1 {
        let peer = SocketAddr::from(([10, 0, 0, host as u8], 4789));
        peers.add(peer).unwrap();
    }
    assert_eq!(peers.add(address("10.1.0.1:4789")), Err(PeerError::Full));
}

/// F12: otherwise any process of a peer's host could send in its name.
#[test]
fn senders_are_known_by_address_and_port() {
    let peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:1", "192.0.2.3:2"]);
    for known in ["192.0.2.2:4789", "192.0.2.3:2"] {
        assert_eq!(peers.sender(address(known)), Some(address(known)));
    }
    for unknown in ["192.0.2.2:31337", "192.0.2.3:3", "192.0.2.4:4789"] {
        assert_eq!(peers.sender(address(unknown)), None, "{unknown}");
    }
}

#[test]
fn who_may_send_from_any_port_is_known_by_address_unless_two_share_it() {
    let of_any_port = |text: &str| PeerSpec {
        any_port: true,
        ..address(text).into()
    };
    let mut peers = tunnel(&["192.0.2.3:4789"]);
    for text in [
        "192.0.2.2:4789",
        "192.0.2.3:1",
        "192.0.2.4:1",
        "192.0.2.4:2",
    ] {
        peers.add(of_any_port(text)).unwrap();
    }
    let sender = |text: &str| peers.sender(address(text)).map(|it| it.to_string());
    assert_eq!(sender("192.0.2.2:50000").as_deref(), Some("192.0.2.2:4789"));
    assert_eq!(sender("192.0.2.3:4789").as_deref(), Some("192.0.2.3:4789"));
    assert_eq!(sender("192.0.2.3:50000").as_deref(), Some("192.0.2.3:1"));
    assert_eq!(sender("192.0.2.4:2").as_deref(), Some("192.0.2.4:2"));
    assert_eq!(sender("192.0.2.4:3"), None);
}

#[test]
fn peers_take_part_in_the_networks_that_are_stated() {
    let (named, other) = (address("192.0.2.2:4789"), address("192.0.2.3:4789"));
    let (one, two) = (Vni::new(1).unwrap(), Vni::new(2).unwrap());
    let mut peers = tunnel(&["192.0.2.3:4789"]);
    let spec = PeerSpec {
        networks: vec![one],
        stations: vec![station(1)],
        ..named.into()
    };
    peers.add(spec).unwrap();
    assert_eq!(peers.admits(one, station(1), named), Admitted::Yes);
    let refused = peers.admits(two, station(1), named);
    assert_eq!(refused, Admitted::ForeignNetwork);
    assert_eq!(peers.admits(two, station(2), other), Admitted::Yes);
    assert_eq!(peers.of_network(one).count(), 2);
    assert_eq!(
        peers
            .of_network(two)
            .map(|way| way.map(|way| way.to))
            .collect::<Vec<_>>(),
        [Ok(other)]
    );
    assert_eq!(peers.behind(one, station(1)), Some(named));
    assert_eq!(peers.behind(two, station(1)), None);
}

/// F12: otherwise one guest that invents addresses causes the frames of all networks to be flooded.
#[test]
fn who_fills_the_table_takes_it_from_no_other_network() {
    let mut peers = tunnel(&["192.0.2.2:4789"]);
    let (peer, now) = (address("192.0.2.2:4789"), Instant::now());
    let networks = [1, 2, 3].map(|number| Vni::new(number).unwrap());
    let [greedy, second, third] = networks;
    for number in 0..STATIONS_MAX as u32 + 10 {
        peers.learn(greedy, station(number), peer, now);
    }
    for number in 0..100 {
        peers.learn(second, station(number), peer, now);
        peers.learn(third, station(number), peer, now);
        peers.learn(greedy, station(1 << 20 | number), peer, now);
    }
    let all_behind = |vni| (0..100).all(|number| peers.behind(vni, station(number)).is_some());
    assert!(all_behind(second) && all_behind(third));
    assert_eq!(peers.stations.len(), STATIONS_MAX);
    for number in 0..STATIONS_MAX as u32 {
        peers.learn(second, station(number), peer, now);
        peers.learn(third, station(number), peer, now);
    }
    let known = |vni| {
        let mut numbers: Vec<_> = (0..STATIONS_MAX as u32).collect();
        numbers.retain(|number| peers.behind(vni, station(*number)).is_some());
        numbers.len()
    };
    let share = STATIONS_MAX / 3;
    assert_eq!(known(second), share);
    assert_eq!(known(third), share);
    assert_eq!(peers.stations.len(), STATIONS_MAX);
}

#[test]
fn stations_move_age_and_go_with_their_peer() {
    let mut peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:4789"]);
    let [two, three] = [address("192.0.2.2:4789"), address("192.0.2.3:4789")];
    let start = Instant::now();
    peers.learn(VNI, station(1), two, start);
    assert_eq!(peers.behind(VNI, station(1)), Some(two));
    assert_eq!(peers.behind(Vni::new(6).unwrap(), station(1)), None);
    peers.learn(VNI, station(1), three, start + Duration::from_secs(200));
    peers.learn(VNI, station(2), two, start);
    peers.age(start + STATION_AGE);
    assert_eq!(peers.behind(VNI, station(1)), Some(three));
    assert_eq!(peers.behind(VNI, station(2)), None);
    assert!(peers.remove(three) && !peers.remove(three));
    assert_eq!(peers.behind(VNI, station(1)), None);
}

#[test]
fn a_station_that_speaks_is_not_drawn_away() {
    let mut peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:4789"]);
    let [two, three] = [address("192.0.2.2:4789"), address("192.0.2.3:4789")];
    let mut now = Instant::now();
    for _ in 0..5 {
        peers.learn(VNI, station(1), two, now);
        now += STATION_STAYS / 2;
        let learned = peers.learn(VNI, station(1), three, now);
        assert_eq!(learned, Learned::Contested);
        assert_eq!(peers.behind(VNI, station(1)), Some(two));
    }
    let Some(Complaint::Conflict(told)) = peers.take_complaint(now) else {
        panic!("nothing is told");
    };
    assert_eq!(
        (told.station, told.peer, told.other),
        (station(1), two, three)
    );
    peers.learn(VNI, station(1), three, now);
    assert_eq!(peers.take_complaint(now), None, "not again so soon");
    now += STATION_STAYS;
    let learned = peers.learn(VNI, station(1), three, now);
    assert_eq!(learned, Learned::Moved);
    assert_eq!(peers.behind(VNI, station(1)), Some(three));
}

#[test]
fn groups_are_not_learned_and_the_table_ends() {
    let mut peers = tunnel(&["192.0.2.2:4789"]);
    let (peer, now) = (address("192.0.2.2:4789"), Instant::now());
    peers.learn(VNI, Mac::BROADCAST, peer, now);
    peers.learn(VNI, Mac::default(), peer, now);
    assert_eq!(peers.stations.len(), 0);
    for number in 0..STATIONS_MAX as u32 + 10 {
        peers.learn(VNI, station(number), peer, now);
    }
    assert_eq!(peers.stations.len(), STATIONS_MAX);
}

fn with_stations(peer: SocketAddr, stations: &[Mac]) -> PeerSpec {
    PeerSpec {
        stations: stations.to_vec(),
        ..peer.into()
    }
}

#[test]
fn stated_stations_are_behind_their_peer_alone() {
    let (named, other) = (address("192.0.2.2:4789"), address("192.0.2.3:4789"));
    let mut peers = tunnel(&["192.0.2.3:4789"]);
    let stated = with_stations(named, &[station(1), station(2)]);
    peers.add(stated).unwrap();
    let (now, long) = (Instant::now(), Duration::from_secs(1000));
    let behind = peers.behind(VNI, station(1));
    assert_eq!(behind, Some(named), "before it speaks");
    for at in [now, now + long] {
        for (mac, peer, admitted) in [
            (station(1), named, Admitted::Yes),
            (station(1), other, Admitted::ForeignStation),
            (station(3), named, Admitted::ForeignStation),
            (Mac([1; 6]), named, Admitted::ForeignStation),
            (station(3), other, Admitted::Yes),
        ] {
            assert_eq!(peers.admits(VNI, mac, peer), admitted, "{mac} {peer}");
            if admitted == Admitted::Yes {
                assert_eq!(peers.learn(VNI, mac, peer, at), Learned::Plain);
                assert_eq!(peers.admits(VNI, mac, peer), Admitted::Yes, "again");
            }
        }
        peers.age(at);
    }
    assert_eq!(peers.behind(VNI, station(1)), Some(named));
    let third = address("192.0.2.4:4789");
    for bad in [station(2), Mac::default(), Mac::BROADCAST] {
        let refused = Err(PeerError::Station {
            station: bad,
            peer: third,
        });
        assert_eq!(peers.add(with_stations(third, &[station(9), bad])), refused);
    }
    assert!(peers.remove(named));
    assert_eq!(peers.admits(VNI, station(1), other), Admitted::Yes);
    peers.add(with_stations(third, &[station(9)])).unwrap();
}
