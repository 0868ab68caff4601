//! IP addresses of adapters: those of processes get them from nobody else, and guests may be kept to one.

use std::net::{IpAddr, Ipv4Addr};

use vrdma_api::{AdapterKind, AdapterRequest, MacAddress, Name};

use super::{Inventory, Refusal};

/// Addresses that RFC 3927 section 2.1 gives to hosts: 169.254.1.0 to 169.254.254.255.
const LINK_LOCAL_FIRST: u32 = 0xa9fe_0100;
const LINK_LOCAL_COUNT: u32 = 254 << 8;

impl Inventory {
    /// The address that a new adapter gets: the one asked for, or a free link-local one that follows
    /// from its MAC.
    pub(super) fn choose_ip(
        &self,
        request: &AdapterRequest,
        mac: MacAddress,
    ) -> Result<Option<IpAddr>, Refusal> {
        match (request.kind, request.ip) {
            (AdapterKind::Vm | AdapterKind::Tap, None) => Ok(None),
            (_, Some(ip)) => {
                if !is_usable(ip) {
                    return Err(Refusal::unusable_address(ip));
                }
                match self.adapters.with_ip(&request.portgroup, ip) {
                    Some(owner) => Err(Refusal::address_taken(ip, owner)),
                    None => Ok(Some(ip)),
                }
            }
            (AdapterKind::Process, None) => Ok(self.free_link_local(&request.portgroup, mac)),
        }
    }

    /// There are more addresses than adapters, so one is free.
    fn free_link_local(&self, portgroup: &Name, mac: MacAddress) -> Option<IpAddr> {
        let [.., a, b, c] = mac.octets();
        let start = u32::from_be_bytes([0, a, b, c]);
        let address = |step| LINK_LOCAL_FIRST + start.wrapping_add(step) % LINK_LOCAL_COUNT;
        (0..LINK_LOCAL_COUNT)
            .map(|step| IpAddr::V4(Ipv4Addr::from_bits(address(step))))
            .find(|ip| self.adapters.with_ip(portgroup, *ip).is_none())
    }
}

/// One host's address that others can send to.
fn is_usable(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_broadcast)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vrdma_api::{Origin, PortGroupRequest};
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
            let Some(IpAddr::V4(ip)) = spec.ip else {
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
        assert_eq!(
            pinned.unwrap().gid(),
            Some(Gid::from_ipv4([10, 0, 0, 6].into()))
        );
    }
}
