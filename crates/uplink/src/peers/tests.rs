use super::*;

const VNI: Vni = Vni::new(5).unwrap();

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn tunnel(peers: &[&str]) -> Peers {
    let mut table = Peers::new(address("192.0.2.1:4789"));
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

#[test]
fn senders_are_known_by_address_unless_two_share_it() {
    let peers = tunnel(&["192.0.2.2:4789", "192.0.2.3:1", "192.0.2.3:2"]);
    assert_eq!(
        peers.sender(address("192.0.2.2:50000")),
        Some(address("192.0.2.2:4789"))
    );
    assert_eq!(
        peers.sender(address("192.0.2.3:2")),
        Some(address("192.0.2.3:2"))
    );
    assert_eq!(peers.sender(address("192.0.2.3:3")), None);
    assert_eq!(peers.sender(address("192.0.2.4:4789")), None);
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
    let told = peers.take_conflict(now).unwrap();
    assert_eq!(
        (told.station, told.peer, told.other),
        (station(1), two, three)
    );
    peers.learn(VNI, station(1), three, now);
    assert_eq!(peers.take_conflict(now), None, "not again so soon");
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
    assert!(peers.stations.is_empty());
    for number in 0..STATIONS_MAX as u32 + 10 {
        peers.learn(VNI, station(number), peer, now);
    }
    assert_eq!(peers.stations.len(), STATIONS_MAX);
}

#[test]
fn stated_stations_are_behind_their_peer_alone() {
    let (named, other) = (address("192.0.2.2:4789"), address("192.0.2.3:4789"));
    let mut peers = tunnel(&["192.0.2.3:4789"]);
    peers.add_with(named, &[station(1), station(2)]).unwrap();
    let (now, long) = (Instant::now(), Duration::from_secs(1000));
    assert_eq!(
        peers.behind(VNI, station(1)),
        Some(named),
        "before it speaks"
    );
    assert_eq!(peers.learn(VNI, station(1), named, now), Learned::Plain);
    for at in [now, now + long] {
        assert_eq!(peers.learn(VNI, station(1), other, at), Learned::Foreign);
        assert_eq!(peers.learn(VNI, station(3), named, at), Learned::Foreign);
        assert_eq!(peers.learn(VNI, Mac([1; 6]), named, at), Learned::Foreign);
        assert_eq!(peers.learn(VNI, station(3), other, at), Learned::Plain);
        peers.age(at);
    }
    assert_eq!(peers.behind(VNI, station(1)), Some(named));
    let third = address("192.0.2.4:4789");
    for bad in [station(2), Mac::default(), Mac::BROADCAST] {
        let refused = Err(PeerError::Station {
            station: bad,
            peer: third,
        });
        assert_eq!(peers.add_with(third, &[station(9), bad]), refused);
    }
    assert!(peers.remove(named));
    assert_eq!(peers.learn(VNI, station(1), other, now), Learned::Plain);
    peers.add_with(third, &[station(9)]).unwrap();
}
