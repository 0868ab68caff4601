use super::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn digits(text: &str) -> String {
    let all = all().unwrap();
    let figure = find(&all, &key(text)).unwrap_or_else(|| panic!("{text} is not there"));
    figure.number.as_ref().unwrap().text.clone()
}

#[track_caller]
fn assert_ratio(of: &str, to: &str, expected: f64) {
    let ratio = ratio(&all().unwrap(), &key(of), &key(to)).unwrap();
    assert!((ratio - expected).abs() < 0.005, "{of} / {to} is {ratio}");
}

#[test]
fn every_row_is_there() {
    let all = all().unwrap();
    let counts = all.iter().map(|one| (one.study.name(), one.figures.len()));
    let counts: Vec<_> = counts.collect();
    // s0: 2 latency tables of 8 x 2, one of 8 x 3, two peaks, two half-power points of 2, one overhead.
    let expected = [("s0", 65), ("s1", 53), ("s2", 18), ("s3", 11), ("s4", 11)];
    assert_eq!(counts, expected);
    let of_all = all.iter().flat_map(|one| &one.figures);
    let missing = of_all.filter(|figure| figure.number.is_none()).count();
    // Those of four tenants a side, and options B and C.
    assert_eq!(missing, 16 + 2);
}

#[test]
fn values_have_the_digits_that_were_printed() {
    for (name, expected) in [
        ("s0/send-lat-polling/virtual/64", "2.9"),
        ("s0/send-lat-polling/native/256", "2.3"),
        ("s0/read-lat-polling/native/16", "2.27"),
        ("s0/read-lat-events/virtual-released/2", "11.76"),
        ("s0/half-power-read-events/virtual/-", "2200"),
        ("s1/mpi-send/vm-rdma-one/1GB", "0.230"),
        ("s1/mpi-send/host-tcp-four/1GB.3", "1.476"),
        ("s1/cp/host-rdma-one/1GB.most", "1.216"),
        ("s1/qperf-rc_bi_bw/container/-", "6.41"),
        ("s2/verbs-lat-blocking/virtual/1", "28.43"),
        ("s2/message-rate/native/-", "2.5"),
        ("s3/cavity/tcp/n8np160", "2878.94"),
        ("s3/cavity/pvrdma/n1np20", "119.61"),
        ("s3/send-bw/pvrdma/65536", "4395.71"),
        ("s4/write-lat/native/2", "1.20"),
        ("s4/write-lat/F/2", "5.00"),
        ("s4/precopy/rdma/-", "432757"),
    ] {
        assert_eq!(digits(name), expected, "{name}");
    }
}

#[test]
fn rows_without_a_value_say_why() {
    let all = all().unwrap();
    for (name, reason) in [
        ("s4/write-lat/C/2", "status 12"),
        ("s4/write-lat/B/2", "no figure"),
        ("s1/mpi-send/vms-rdma-four/1GB.4", "never measured"),
    ] {
        let figure = find(&all, &key(name)).unwrap();
        assert_eq!(figure.number, None);
        assert!(figure.note.as_ref().unwrap().contains(reason), "{name}");
    }
}

/// The ratios that the studies compute from their own numbers.
#[test]
fn ratios_come_out_as_published() {
    assert_ratio(
        "s3/cavity/passthrough/n2np40",
        "s3/cavity/pvrdma/n2np40",
        0.83,
    );
    assert_ratio(
        "s3/cavity/passthrough/n4np80",
        "s3/cavity/pvrdma/n4np80",
        0.78,
    );
    assert_ratio("s3/cavity/tcp/n4np80", "s3/cavity/pvrdma/n4np80", 1.32);
    assert_ratio("s3/cavity/tcp/n8np160", "s3/cavity/pvrdma/n8np160", 1.82);
    assert_ratio(
        "s1/qperf-rc_rdma_read_bw/container/-",
        "s1/qperf-rc_rdma_read_bw/host/-",
        0.98,
    );
    assert_ratio(
        "s1/qperf-rc_bi_bw/container/-",
        "s1/qperf-rc_bi_bw/host/-",
        1.01,
    );
    assert_ratio(
        "s1/qperf-rc_lat/container/-",
        "s1/qperf-rc_lat/host/-",
        0.92,
    );
    assert_ratio(
        "s1/qperf-rc_rdma_read_lat/container/-",
        "s1/qperf-rc_rdma_read_lat/host/-",
        1.00,
    );
    assert_ratio("s4/precopy/rdma/-", "s4/precopy/tcp/-", 1.31);
    for size in [2, 4, 8, 16, 32, 64, 128, 256] {
        let read = |name: &str| -> f64 {
            digits(&format!("s0/read-lat-polling/{name}/{size}"))
                .parse()
                .unwrap()
        };
        let more = read("virtual") - read("native");
        assert!((0.68..0.71).contains(&more), "{size} B: {more} us");
    }
}

#[test]
fn cases_double_the_mesh_and_halve_the_step() {
    let all = all().unwrap();
    let cases = &all[3].cases;
    let cells = |case: &Case| case.mesh.iter().product::<u32>();
    let step = |case: &Case| case.time_step.parse::<f64>().unwrap();
    assert_eq!(cases.len(), 3);
    for pair in cases.windows(2) {
        assert_eq!(cells(&pair[1]), 2 * cells(&pair[0]));
        assert!((step(&pair[0]) / step(&pair[1]) - 2.0).abs() < 1e-9);
    }
}

#[test]
fn wrong_tables_are_refused() {
    let good = FILES[4];
    assert!(read(good).is_ok());
    for (from, to) in [
        (r#""1.20""#, r#""1,20""#),
        (r#""1.20""#, r#""-1""#),
        (r#", "1.53""#, ""),
        (
            r#"["native", "A", "D", "E"]"#,
            r#"["native", "A", "D", "D"]"#,
        ),
        (r#"measure = "precopy""#, r#"measure = "pre copy""#),
        ("unit =", "units ="),
        (r#"note = "SR-IOV virtual function: no figure""#, ""),
    ] {
        assert!(good.contains(from), "{from}");
        assert!(read(&good.replacen(from, to, 1)).is_err(), "{from} -> {to}");
    }
}
