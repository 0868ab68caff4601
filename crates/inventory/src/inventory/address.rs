//! IP addresses of adapters: those of process adapters always come from here, and guests may be limited to some.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use vrdma_api::{AdapterKind, AdapterRequest, Addresses, MacAddress, Name};

use super::{Inventory, Refusal};

/// First address that RFC 3927 section 2.1 gives to hosts: 169.254.1.0 to 169.254.254.255.
const LINK_LOCAL_FIRST: u32 = 0xa9fe_0100;
const LINK_LOCAL_COUNT: u32 = 254 << 8;

impl Inventory {
    /// Returns the addresses of a new adapter: those asked for, or a free link-local one that is derived from its MAC.
    pub(super) fn choose_ip(
        &self,
        request: &AdapterRequest,
        mac: MacAddress,
    ) -> Result<Addresses, Refusal> {
        if request.kind == AdapterKind::Process && request.ip.is_empty() {
            let free = self.free_link_local(&request.portgroup, mac);
            return Ok(free.into_iter().collect());
        }
        if request.kind != AdapterKind::Vm {
            Self::check_only_address(request.kind, &request.ip)?;
        }
        self.check_addresses(&request.name, &request.portgroup, &request.ip)?;
        Ok(request.ip.clone())
    }

    fn check_only_address(kind: AdapterKind, ip: &Addresses) -> Result<(), Refusal> {
        match ip {
            Addresses::Learned => Err(Refusal::learns_nothing(kind)),
            Addresses::Stated(all) if all.len() > 1 => Err(Refusal::one_address(kind)),
            Addresses::Stated(_) => Ok(()),
        }
    }

    /// Checks addresses that are to replace those of a VM's guest.
    ///
    /// # Errors
    /// There is no such adapter, it is not a VM's, or the addresses cannot be used.
    pub(super) fn check_new_addresses(&self, name: &Name, ip: &Addresses) -> Result<(), Refusal> {
        let adapter = &self.plugged(name)?.adapter;
        match adapter.kind {
            AdapterKind::Vm => self.check_addresses(name, &adapter.portgroup, ip),
            kind => Err(Refusal::fixed_address(kind)),
        }
    }

    /// Checks that the named adapter may have each address, and that none is listed twice.
    fn check_addresses(&self, of: &Name, group: &Name, ip: &Addresses) -> Result<(), Refusal> {
        if ip.as_slice().len() > Addresses::MAX {
            return Err(Refusal::too_many_addresses());
        }
        let mut seen = BTreeSet::new();
        for &ip in ip.as_slice() {
            if !is_usable(ip) {
                return Err(Refusal::unusable_address(ip));
            }
            if !seen.insert(ip) {
                return Err(Refusal::address_twice(ip));
            }
            if let Some(owner) = self.adapters.with_ip(group, ip)
                && owner != of
            {
                return Err(Refusal::address_taken(ip, owner));
            }
        }
        Ok(())
    }

    /// Returns a free link-local address; there is one, because there are more addresses than adapters.
    fn free_link_local(&self, portgroup: &Name, mac: MacAddress) -> Option<IpAddr> {
        let [.., a, b, c] = mac.octets();
        let start = u32::from_be_bytes([0, a, b, c]);
        let address = |step| LINK_LOCAL_FIRST + start.wrapping_add(step) % LINK_LOCAL_COUNT;
        (0..LINK_LOCAL_COUNT)
            .map(|step| IpAddr::V4(Ipv4Addr::from_bits(address(step))))
            .find(|ip| self.adapters.with_ip(portgroup, *ip).is_none())
    }
}

/// Whether this is the address of one host, to which others can send.
fn is_usable(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_broadcast)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::path::Path;

    use vrdma_api::{AdapterChange, Origin, PortGroupRequest};
    use vrdma_switch::Kept;
    use vrdma_wire::Gid;

    use super::*;
    use crate::inventory::{Field, Kind};

    fn with_group() -> Inventory {
        let mut inventory = Inventory::new(Path::new("/run/v"), 1);
        let request: PortGroupRequest = serde_json::from_str(r#"{ "name": "blue" }"#).unwrap();
        inventory.add_portgroup(&request, Origin::Config).unwrap();
        inventory
    }

    fn process(name: &str, ip: Option<&str>) -> AdapterRequest {
        let mut request =
            serde_json::json!({ "name": name, "portgroup": "blue", "kind": "process" });
        if let Some(ip) = ip {
            request["ip"] = ip.into();
        }
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn without_a_wish_it_is_link_local_and_free() {
        let mut inventory = with_group();
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..50 {
            let request = process(&format!("c{number}"), None);
            let spec = inventory.add_adapter(&request, Origin::Runtime).unwrap();
            let [IpAddr::V4(ip)] = *spec.ip.as_slice() else {
                panic!("{spec:?}")
            };
            assert!(ip.is_link_local() && seen.insert(ip), "{ip}");
        }
    }

    #[test]
    fn taken_unusable_and_misplaced_addresses_are_refused() {
        let mut inventory = with_group();
        let first = process("a", Some("10.0.0.5"));
        inventory.add_adapter(&first, Origin::Runtime).unwrap();
        let mut refused = |request: AdapterRequest| {
            let refused = inventory.add_adapter(&request, Origin::Runtime);
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.field, Field::Ip);
            (refusal.kind, refusal.to_string())
        };
        let (kind, sentence) = refused(process("b", Some("10.0.0.5")));
        assert_eq!(kind, Kind::Conflict);
        assert!(sentence.contains("\"a\""), "{sentence}");
        let useless = [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "ff02::1",
        ];
        for ip in useless {
            assert_eq!(refused(process("b", Some(ip))).0, Kind::Invalid, "{ip}");
        }
        let of_vm = |ip| AdapterRequest {
            kind: AdapterKind::Vm,
            ..process("b", Some(ip))
        };
        assert_eq!(refused(of_vm("10.0.0.5")).0, Kind::Conflict);
        let pinned = inventory.add_adapter(&of_vm("10.0.0.6"), Origin::Runtime);
        let six = Gid::from_ipv4([10, 0, 0, 6].into());
        assert_eq!(pinned.unwrap().kept(), Kept::Stated([six].into()));
    }

    fn vm(name: &str, ip: &[&str]) -> AdapterRequest {
        let request = serde_json::json!({ "name": name, "portgroup": "blue", "ip": ip });
        serde_json::from_value(request).unwrap()
    }

    fn change(ip: &[&str]) -> AdapterChange {
        serde_json::from_value(serde_json::json!({ "ip": ip })).unwrap()
    }

    #[test]
    fn a_vm_has_several_addresses_each_of_which_is_its_own() {
        let mut inventory = with_group();
        let both = ["10.0.0.5", "fd00::5"];
        let spec = inventory.add_adapter(&vm("a", &both), Origin::Runtime);
        let five = [
            Gid::from_ipv4([10, 0, 0, 5].into()),
            Gid("fd00::5".parse::<Ipv6Addr>().unwrap().octets()),
        ];
        assert_eq!(spec.unwrap().kept(), Kept::Stated(five.into()));
        let mut refused = |ip: &[&str]| {
            let refused = inventory.add_adapter(&vm("b", ip), Origin::Runtime);
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.field, Field::Ip);
            refusal.to_string()
        };
        assert_eq!(
            refused(&["10.0.0.6", "fd00::5"]),
            "the address fd00::5 belongs to the adapter \"a\" of that port group already; choose another"
        );
        assert_eq!(
            refused(&["10.0.0.6", "10.0.0.6"]),
            "the address 10.0.0.6 is stated twice; state it once"
        );
        let many: Vec<_> = (1..=17).map(|last| format!("10.1.0.{last}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(
            refused(&many),
            "an adapter is kept to 16 addresses at most; state fewer, or none to let the guest take any"
        );
        assert!(
            inventory
                .add_adapter(&vm("b", &many[..16]), Origin::Runtime)
                .is_ok()
        );
    }

    #[test]
    fn the_addresses_of_a_vm_change_and_nobody_else_s_do() {
        let mut inventory = with_group();
        let name = |text: &str| -> Name { text.parse().unwrap() };
        for (vm_name, ip) in [("a", "10.0.0.5"), ("b", "10.0.0.6")] {
            inventory
                .add_adapter(&vm(vm_name, &[ip]), Origin::Runtime)
                .unwrap();
        }
        let mut set = |of: &str, ip: &[&str]| inventory.change_adapter(&name(of), &change(ip));
        let changed = set("a", &["10.0.0.5", "10.0.0.7"]).unwrap();
        assert_eq!(changed.ip.to_string(), "10.0.0.5 10.0.0.7");
        let taken = set("b", &["10.0.0.7"]).unwrap_err();
        assert_eq!(taken.kind, Kind::Conflict);
        set("a", &["10.0.0.5"]).unwrap();
        set("b", &["10.0.0.7"]).unwrap();
        assert!(set("b", &[]).unwrap().ip.is_empty());
        set("a", &["10.0.0.7", "10.0.0.6"]).unwrap();
        inventory
            .add_adapter(&process("c", None), Origin::Runtime)
            .unwrap();
        let fixed = inventory.change_adapter(&name("c"), &change(&["10.0.0.9"]));
        assert_eq!(
            fixed.unwrap_err().to_string(),
            "the address of an adapter of kind process stays as it was added; remove the adapter and add it with another"
        );
        let mut two = process("d", None);
        two.ip = vm("d", &["10.0.0.8", "10.0.0.9"]).ip;
        let refused = inventory.add_adapter(&two, Origin::Runtime).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "an adapter of kind process has one address; state one, or use kind vm"
        );
    }

    #[test]
    fn only_a_vm_learns_its_addresses() {
        let mut inventory = with_group();
        let learning = |kind: &str| {
            let request = serde_json::json!({
                "name": "a", "portgroup": "blue", "kind": kind, "ip": "learn"
            });
            serde_json::from_value::<AdapterRequest>(request).unwrap()
        };
        for kind in ["process", "tap"] {
            let refusal = inventory.add_adapter(&learning(kind), Origin::Runtime);
            let refusal = refusal.unwrap_err();
            assert_eq!(refusal.field, Field::Ip);
            let sentence = format!(
                "an adapter of kind {kind} learns no address, since no guest chooses one; state it, or use kind vm"
            );
            assert_eq!(refusal.to_string(), sentence);
        }
        let spec = inventory.add_adapter(&learning("vm"), Origin::Runtime);
        assert_eq!(spec.unwrap().kept(), Kept::Learned);
        let name: Name = "a".parse().unwrap();
        let stated = inventory.change_adapter(&name, &change(&["10.0.0.5"]));
        assert_eq!(stated.unwrap().ip.to_string(), "10.0.0.5");
        let change = AdapterChange {
            ip: Some(Addresses::Learned),
            ..AdapterChange::default()
        };
        let learns = inventory.change_adapter(&name, &change).unwrap();
        assert_eq!(learns.ip.to_string(), "learn");
        let other = vm("b", &["10.0.0.5"]);
        assert!(
            inventory.add_adapter(&other, Origin::Runtime).is_ok(),
            "it is free"
        );
    }
}
