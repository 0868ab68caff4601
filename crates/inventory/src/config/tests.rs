use super::*;

const FILE: &str = "/etc/vrdma/vrdmad.toml";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::from_text(Path::new(FILE), text, Path::new("/run/vrdma"))
}

/// Wrong texts, each with the whole sentence without the file's name.
const WRONG: &[(&str, &str)] = &[
    (
        "[deamon]",
        "line 1: unknown field `deamon`, expected one of `daemon`, `migration`, `portgroup`, `uplink`, `peer`, `adapter`; correct the spelling or remove the line",
    ),
    (
        "[daemon]\nsocked = \"/run/x\"",
        "line 2, key socked: unknown field `socked`, expected one of `socket`, `run_dir`, `shards`, `cores`, `poll`, `sandbox`, `supervise`, `trust_own_user`, `userfaultfd`; correct the spelling or remove the line",
    ),
    (
        "daemon = 5",
        "line 1, key daemon: invalid type: integer `5`, expected a table [daemon]; write the value as the example in `vrdmad --help` does",
    ),
    (
        "[daemon]\nsocket = 7",
        "line 2, key socket: invalid type: integer `7`, expected path string; write the value as the example in `vrdmad --help` does",
    ),
    (
        "[daemon]\nsocket = \"run/x\"",
        "line 2, key socket: \"run/x\" is not an absolute path; begin it with a slash",
    ),
    (
        "[daemon]\nrun_dir = \"\"",
        "line 2, key run_dir: \"\" is not an absolute path; begin it with a slash",
    ),
    (
        "[portgroup]\nname = \"blue\"",
        "line 1: invalid type: map, expected a sequence; write the table's name in double brackets, such as [[adapter]]",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nlimit_out = \"10\"",
        "line 6, key limit_out: 10 is too little to send packets: use 400kbit or more",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nlimit_out = \"fast\"",
        "line 6, key limit_out: \"fast\" is not a rate: use a number with a unit, such as 10gbit, 500mbit or 800kbit",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nkind = \"tap\"\nlimit_out = \"1gbit\"",
        "line 7, key limit_out: limits, guarantees and weights are for RDMA, which a TAP has none of; limit its interface with `tc` instead",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nweight = 0",
        "line 6, key weight: 0 is not a weight: use a whole number from 1 to 100",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nlimit_in_ops = \"99\"",
        "line 6, key limit_in_ops: 99 messages a second are too few: use 100 or more",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nkind = \"tap\"\nweight = 3",
        "line 7, key weight: limits, guarantees and weights are for RDMA, which a TAP has none of; limit its interface with `tc` instead",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nguarantee_out = \"2gbit\"\nlimit_out = \"1gbit\"",
        "line 3, key guarantee_out: a guarantee of 2gbit is more than limit_out, 1gbit, lets pass; lower guarantee_out or raise limit_out",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nlimit_out = \"1gbit\"\nguarantee_out = \"1100mbit\"",
        "line 7, key guarantee_out: a guarantee of 1100mbit is more than limit_out, 1gbit, lets pass; lower guarantee_out or raise limit_out",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nlimit_in_ops = \"5k\"\nguarantee_in_ops = \"6k\"",
        "line 4, key guarantee_in_ops: a guarantee of 6k is more than limit_in_ops, 5k, lets pass; lower guarantee_in_ops or raise limit_in_ops",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nguarantee_out = 0",
        "line 6, key guarantee_out: 0bit is too little to send packets: use 400kbit or more",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nkind = \"tap\"\nguarantee_out = \"1gbit\"",
        "line 7, key guarantee_out: limits, guarantees and weights are for RDMA, which a TAP has none of; limit its interface with `tc` instead",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nweight = 0",
        "line 3, key weight: 0 is not a weight: use a whole number from 1 to 100",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nweight = \"heavy\"",
        "line 3, key weight: \"heavy\" is not a weight: use a whole number from 1 to 100",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nlimit_out_ops = \"many\"",
        "line 3, key limit_out_ops: \"many\" is not a number of messages: use one such as 5000, 100k or 2m",
    ),
    (
        "[[portgroup]]\nvlan = 1",
        "line 1: missing field `name`; add it to this table",
    ),
    (
        "[[portgroup]]\nname = \"Blue\"",
        "line 2, key name: \"Blue\" is not a name: use 1 to 32 of the characters a-z, 0-9, '_', '.', '-', beginning with a letter or digit",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\nvlan = 4095",
        "line 3, key vlan: 4095 is not a VLAN: use a number from 1 to 4094, or leave the VLAN out",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\nvlan = -1",
        "line 3, key vlan: -1 is not a VLAN: use a number from 1 to 4094, or leave the VLAN out",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\nvlan = \"ten\"",
        "line 3, key vlan: invalid type: string \"ten\", expected a VLAN number from 1 to 4094 without quotes; write the value as the example in `vrdmad --help` does",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\n\n[[portgroup]]\nname = \"blue\"",
        "line 5, key name: there is a port group \"blue\" already; choose another name",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\nvlan = 9\n[[portgroup]]\nname = \"red\"\nvlan = 9",
        "line 6, key vlan: VLAN 9 belongs to the port group \"blue\" already; choose another VLAN or plug the adapters into that group",
    ),
    (
        "[daemon]\nsandbox = \"no\"",
        "line 2, key sandbox: invalid type: string \"no\", expected a boolean; write the value as the example in `vrdmad --help` does",
    ),
    (
        "[daemon]\npoll = \"sometimes\"",
        "line 2, key poll: unknown variant `sometimes`, expected `adaptive` or `always`; write one of these in double quotes",
    ),
    (
        "[daemon]\npoll = 1",
        "line 2, key poll: wanted string or table; write it in double quotes",
    ),
    (
        "[daemon]\ncores = 1",
        "line 2, key cores: invalid type: integer `1`, expected a string; write the value as the example in `vrdmad --help` does",
    ),
    (
        "[daemon]\nshards = 0",
        "line 2, key shards: a daemon has 1 to 64 shards",
    ),
    (
        "[daemon]\nshards = 2\ncores = \"0\"",
        "line 2, key shards: `cores` names 1, and each has one shard; leave `shards` out",
    ),
    (
        "[daemon]\nshards = 2\n[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nshard = 2",
        "line 8, key shard: there is no shard 2; choose one of 0 to 1",
    ),
    (
        "[[portgroup]]\nname = \"blue\"\nname = \"red\"",
        "line 3, key name: duplicate key; keep one of the two",
    ),
    (
        "[[adapter]]\nname = \"vm1\"",
        "line 1: missing field `portgroup`; add it to this table",
    ),
    (
        "[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"",
        "line 3, key portgroup: there is no port group \"blue\"; there is none yet, so add it first",
    ),
    (
        "[[portgroup]]\nname = \"red\"\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"",
        "line 5, key portgroup: there is no port group \"blue\"; add it first or use one of red",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"",
        "line 7, key name: there is an adapter \"x\" already; choose another name",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nmac = \"52:54:00:00:00:01\"\n[[adapter]]\nname = \"y\"\nportgroup = \"b\"\nmac = \"52:54:00:00:00:01\"",
        "line 10, key mac: the MAC 52:54:00:00:00:01 belongs to the adapter \"x\" already; choose another",
    ),
    (
        "[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nmac = \"53:54:00:00:00:01\"",
        "line 4, key mac: \"53:54:00:00:00:01\" is not a MAC address for an adapter: write six two-digit hexadecimal numbers, the first one even and not all zero, such as 52:54:00:00:00:01",
    ),
    (
        "[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nip = [\"10.0.0.5\", \"10.0.0\"]",
        "line 4, key ip: \"10.0.0\" is no IP address: write one such as 10.0.0.5 or fd00::5",
    ),
    (
        "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nip = [\"10.0.0.5\", \"10.0.0.5\"]",
        "line 6, key ip: the address 10.0.0.5 is stated twice; state it once",
    ),
    (
        "[[adapter]]\nname = \"x\"\nportgroup = \"b\"\ndoorbells = \"polled\"",
        "line 4, key doorbells: unknown variant `polled`, expected `mapped` or `trapped`; write one of these in double quotes",
    ),
    (
        "[[uplink]]\nname = \"up0\"\nkind = \"raw\"\nlisten = \"192.0.2.1\"",
        "line 3, key kind: the raw uplink \"up0\" needs an interface, such as eth1, and no address to listen at",
    ),
    (
        "[[uplink]]\nname = \"up0\"\nkind = \"vxlan\"",
        "line 3, key kind: unknown variant `vxlan`, expected `raw` or `tunnel`; write one of these in double quotes",
    ),
    (
        "[[uplink]]\nname = \"up0\"\nkind = \"tunnel\"\nlisten = \"eth1\"",
        "line 4, key listen: \"eth1\" is not an end of a tunnel: write an IP address and, unless it is 4789, a port, such as 192.0.2.1:4789 or [2001:db8::1]:4789",
    ),
    (
        "[[uplink]]\nname = \"up0\"\nkind = \"tunnel\"\nlisten = \"192.0.2.1\"\n[[peer]]\nuplink = \"up0\"\naddress = \"192.0.2.1\"",
        "line 7, key address: 192.0.2.1:4789 is no other host; name the address that the peer listens at",
    ),
    (
        "[[uplink]]\nname = \"up0\"\nkind = \"tunnel\"\nlisten = \"192.0.2.1\"\n[[peer]]\nuplink = \"up0\"\naddress = \"192.0.2.2\"\nstations = [\"02:00:00:00:00:01\", \"02:00:00:00:00:01\"]",
        "line 8, key stations: the station 02:00:00:00:00:01 is named twice; name it once",
    ),
    (
        "[[peer]]\nuplink = \"up0\"\naddress = \"192.0.2.1\"",
        "line 2, key uplink: there is no uplink \"up0\"; there is none yet, so add it first",
    ),
    (
        "[[portgroup]]\nname = \"b\"\nvlan = 9\n[[portgroup]]\nname = \"r\"\nvni = 9",
        "line 6, key vni: VNI 9 belongs to the port group \"b\" already, perhaps by its VLAN; choose another VNI",
    ),
    (
        "[[adapter]]\nname = \"x\"\nportgroup = \"b\"\nmtu = 9000",
        "line 4, key mtu: unknown field `mtu`, expected one of `name`, `portgroup`, `mac`, `doorbells`, `kind`, `ip`, `shard`, `away`, `limit_out`, `limit_in`, `limit_out_ops`, `limit_in_ops`, `guarantee_out`, `guarantee_in`, `guarantee_out_ops`, `guarantee_in_ops`, `weight`, `users`, `groups`; correct the spelling or remove the line",
    ),
];

#[test]
fn each_mistake_has_its_sentence() {
    for (text, sentence) in WRONG {
        let error = parse(text).expect_err(text).to_string();
        assert_eq!(error, format!("{FILE}, {sentence}"), "{text}");
    }
}

#[test]
fn broken_toml_is_one_line_with_its_place() {
    for text in [
        "[daemon",
        "name = ",
        "=",
        "a = \"",
        "\u{0}",
        "[[adapter]]\nname = vm1",
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(
            error.starts_with(&format!("{FILE}, line ")) && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn socket_paths_fit_the_kernel() {
    let long = "x".repeat(100);
    let error = parse(&format!("[daemon]\nsocket = \"/run/{long}/s\"")).unwrap();
    assert_eq!(error.socket.as_os_str().len(), 107);
    let error = parse(&format!("[daemon]\nsocket = \"/run/{long}/so\""))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 2, key socket: the socket path") && error.contains("has 108 bytes"),
        "{error}"
    );
    let adapter = "[[portgroup]]\nname = \"b\"\n[[adapter]]\nname = \"x\"\nportgroup = \"b\"";
    let error = parse(&format!(
        "[daemon]\nsocket=\"/s\"\nrun_dir = \"/run/{long}\"\n{adapter}"
    ))
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("line 7, key name: the socket path"),
        "{error}"
    );
}

#[test]
fn nothing_said_means_the_defaults() {
    let config = Config::load(None, Path::new("/run/user/7/vrdma")).unwrap();
    assert_eq!(config.socket, Path::new("/run/user/7/vrdma/vrdmad.sock"));
    assert_eq!((config.file, config.adapters.len()), (None, 0));
}

#[test]
fn the_example_of_the_help_is_valid() {
    let text = "[daemon]\nsocket = \"/run/v/s\"\nrun_dir = \"/run/v\"\n[[portgroup]]\nname = \"blue\"\nvlan = 10\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\nmac = \"52:54:00:00:00:01\"\ndoorbells = \"mapped\"";
    let config = parse(text).unwrap();
    let adapter = &config.adapters[0];
    assert_eq!(
        adapter.sockets.vfio_user(),
        Path::new("/run/v/vm1.vfio-user")
    );
    assert_eq!(adapter.sockets.ethernet(), Path::new("/run/v/vm1.ethernet"));
    assert_eq!(adapter.mac.to_string(), "52:54:00:00:00:01");
}

#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path: &Path| {
        Config::load(Some(path), Path::new("/run/vrdma"))
            .unwrap_err()
            .to_string()
    };
    let missing = load(&folder.path().join("no.toml"));
    assert!(
        missing.contains("no.toml: No such file") && missing.contains("--config"),
        "{missing}"
    );
    assert!(load(folder.path()).contains("not a regular file"));
    let binary = folder.path().join("binary");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    assert!(load(&binary).contains("UTF-8"), "{}", load(&binary));
    std::fs::write(&binary, vec![b'\n'; FILE_BYTES_MAX as usize + 1]).unwrap();
    assert!(load(&binary).contains("larger than 8 MiB"));
}

#[test]
fn a_personal_file_comes_before_the_machines() {
    let home = tempfile::tempdir().unwrap();
    let environment = Environment {
        config_home: Some(home.path().to_owned()),
        runtime_dir: None,
    };
    let file = home.path().join("vrdma/vrdmad.toml");
    assert_ne!(default_file(&environment), Some(file.clone()));
    std::fs::create_dir(home.path().join("vrdma")).unwrap();
    std::fs::write(&file, "").unwrap();
    assert_eq!(default_file(&environment), Some(file));
}
