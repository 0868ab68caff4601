use super::*;

#[test]
fn names_follow_the_pattern() {
    let longest = "a".repeat(Name::BYTES_MAX);
    for good in ["a", "0", "vm1", "a_b.c-d", "1.2", longest.as_str()] {
        assert_eq!(good.parse::<Name>().map(String::from), Ok(good.to_owned()));
    }
    let too_long = "a".repeat(Name::BYTES_MAX + 1);
    for bad in [
        "",
        ".",
        "-a",
        "_a",
        "A",
        "a/b",
        "a,b",
        "a b",
        "ä",
        "a\0",
        too_long.as_str(),
    ] {
        assert!(bad.parse::<Name>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_long_wrong_name_is_quoted_in_part() {
    let sentence = "é".repeat(100_000).parse::<Name>().unwrap_err().to_string();
    assert!(sentence.len() < 300, "{sentence}");
}

#[test]
fn macs_are_unicast() {
    let mac: MacAddress = "52:54:00:00:00:0F".parse().unwrap();
    assert_eq!(mac.octets(), [0x52, 0x54, 0, 0, 0, 0x0f]);
    assert_eq!(mac.to_string(), "52:54:00:00:00:0f");
    for bad in [
        "",
        "52:54:00:00:00",
        "52:54:00:00:00:01:02",
        "52-54-00-00-00-01",
        "52:54:00:00:00:1",
        "52:54:00:00:00:+1",
        "53:54:00:00:00:01",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
    ] {
        assert!(bad.parse::<MacAddress>().is_err(), "{bad:?}");
    }
}

#[test]
fn derived_macs_are_local_stable_and_distinct() {
    let of = |name: &str| MacAddress::derived_from(&name.parse().unwrap());
    assert_eq!(of("vm1"), of("vm1"));
    assert_ne!(of("vm1"), of("vm2"));
    assert_eq!(of("vm1").octets()[0], 0x02);
    assert_eq!(of("vm1").to_string().parse(), Ok(of("vm1")));
}

#[test]
fn vlans_have_a_range() {
    assert_eq!(Vlan::try_from(1).map(Vlan::get), Ok(1));
    assert_eq!(Vlan::try_from(4094).map(Vlan::get), Ok(4094));
    for bad in [0, -1, 4095, 65_537, i64::MAX] {
        assert!(Vlan::try_from(bad).is_err(), "{bad}");
    }
    assert_eq!(
        "x".parse::<Vlan>().unwrap_err().to_string(),
        "\"x\" is not a VLAN: use a number from 1 to 4094, or leave the VLAN out"
    );
}

#[test]
fn vnis_have_a_range() {
    assert_eq!(Vni::try_from(0xff_ffff).map(Vni::get), Ok(0xff_ffff));
    assert_eq!(
        Vlan::try_from(10).map(Vni::from),
        Ok(Vni::try_from(10).unwrap())
    );
    for bad in [0, -1, 1 << 24, i64::MAX] {
        assert!(Vni::try_from(bad).is_err(), "{bad}");
    }
}

#[test]
fn requests_refuse_unknown_fields() {
    let error = serde_json::from_str::<PortGroupRequest>(r#"{"name":"a","vlam":1}"#).unwrap_err();
    assert!(error.to_string().contains("vlam"), "{error}");
    let error = serde_json::from_str::<AdapterRequest>(r#"{"name":"a","portgroup":"b","mtu":1}"#);
    assert!(error.unwrap_err().to_string().contains("mtu"));
}

#[test]
fn absent_fields_have_defaults() {
    let request: AdapterRequest = serde_json::from_str(r#"{"name":"a","portgroup":"b"}"#).unwrap();
    assert_eq!(
        (request.mac, request.doorbells),
        (None, DoorbellMode::Mapped)
    );
}

#[test]
fn addresses_are_one_or_a_list() {
    let request = |ip: &str| {
        let text = format!(r#"{{"name":"a","portgroup":"b","ip":{ip}}}"#);
        serde_json::from_str::<AdapterRequest>(&text).map_err(|error| error.to_string())
    };
    let written = |ip: &str| serde_json::to_value(request(ip).unwrap()).unwrap()["ip"].clone();
    assert_eq!(written(r#""10.0.0.5""#), "10.0.0.5");
    assert_eq!(written(r#"["10.0.0.5"]"#), "10.0.0.5");
    let two = written(r#"["10.0.0.5", "fd00::5"]"#);
    assert_eq!(two, serde_json::json!(["10.0.0.5", "fd00::5"]));
    assert_eq!(written("\"learn\""), "learn");
    let learned = request("\"learn\"").unwrap().ip;
    assert_eq!(learned, Addresses::Learned);
    assert!(!learned.is_empty() && learned.as_slice().is_empty());
    for list in [r#"["learn"]"#, r#"["10.0.0.5", "learn"]"#] {
        let error = request(list).unwrap_err();
        assert!(
            error.contains("\"learn\" stands alone: write it without brackets"),
            "{error}"
        );
    }
    assert!(request("[]").unwrap().ip.is_empty());
    for wrong in [r#""10.0.0""#, r#"["10.0.0.5", "10.0.0"]"#] {
        let error = request(wrong).unwrap_err();
        assert!(
            error.contains("\"10.0.0\" is no IP address: write one"),
            "{error}"
        );
    }
    assert!(request("7").unwrap_err().contains("a list of them, or"));
}

#[test]
fn the_run_folder_is_personal_when_it_can_be() {
    use std::path::Path;
    let folder = |xdg: Option<&str>| paths::default_run_dir(xdg.map(Path::new));
    assert_eq!(folder(Some("/run/user/7")), Path::new("/run/user/7/vrdma"));
    assert_eq!(folder(Some("")), Path::new("/run/vrdma"));
    assert_eq!(folder(None), Path::new("/run/vrdma"));
}

#[test]
fn drops_of_a_port_group_add_up() {
    let drops = |reasons: &[(&str, u64)]| {
        let reasons = reasons.iter();
        reasons
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect()
    };
    let stats = |rdma: &[(&str, u64)], ethernet: &[(&str, u64)]| AdapterStats {
        name: "c1".parse().unwrap(),
        rdma: RdmaStats {
            counters: RdmaCounters {
                drops: drops(rdma),
                ..RdmaCounters::default()
            },
            ..RdmaStats::default()
        },
        ethernet: EthernetStats {
            drops: drops(ethernet),
            ..EthernetStats::default()
        },
    };
    let mut sum = PortGroupDrops {
        rdma: drops(&[("unknown-adapter", 3)]),
        ..PortGroupDrops::default()
    };
    sum.add(&stats(
        &[("unknown-adapter", 4), ("unknown-qp", 1)],
        &[("roce", 5)],
    ));
    sum.add(&stats(&[("unknown-qp", u64::MAX)], &[]));
    let expected = PortGroupDrops {
        rdma: drops(&[("unknown-adapter", 7), ("unknown-qp", u64::MAX)]),
        ethernet: drops(&[("roce", 5)]),
    };
    assert_eq!(sum, expected);
}
