use proptest::prelude::*;
use vrdma_memory::Space;
use vrdma_verbs::object::Identity;

use super::*;
use crate::testing::Guest;
use crate::{Device, DeviceConfig};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);

fn context() -> Context {
    let identity = Identity { mac: MAC, seed: 1 };
    let config = DeviceConfig::new(identity);
    let mut device = Device::new(config, Space::new().into()).unwrap();
    let run = |address, pages| WrittenPages {
        address,
        bytes: vec![address as u8 ^ 0x5a; pages * PAGE as usize],
    };
    Context {
        mac: MAC,
        records: device.freeze(),
        pages: vec![run(0x1000, 1), run(0x1_0000_0000, 3)],
    }
}

/// Replaces the digest by the right one.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let digest = digest(&bytes);
    bytes[DIGEST_AT..HEAD_BYTES].copy_from_slice(&digest);
    bytes
}

#[test]
fn what_was_encoded_is_decoded() {
    let context = context();
    let decoded = Context::decode(&context.encode()).unwrap();
    assert_eq!(decoded, context);
    assert_eq!(decoded.page_count(), 4);
    assert_eq!(decoded.config_space().unwrap()[..4], [0xad, 0x15, 0x20, 8]);
}

#[test]
fn each_changed_byte_and_each_missing_end_is_found() {
    let bytes = context().encode();
    for at in (0..bytes.len()).step_by(13) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Context::decode(&changed).is_err(), "byte {at}");
        assert!(Context::decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = context().encode();
    bytes[8] = 9;
    let error = Context::decode(&resealed(bytes)).unwrap_err();
    assert_eq!(error, BadContext::Version(9));
}

#[test]
fn counts_beyond_their_bounds_are_refused_before_anything_is_read() {
    for at in [20, 24] {
        let mut bytes = context().encode();
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Context::decode(&resealed(bytes)).unwrap_err();
        assert_eq!(error, BadContext::TooMany);
    }
}

#[test]
fn runs_are_whole_pages_inside_the_bus() {
    for (address, length) in [(0x1001, PAGE), (0x1000, 5), (0x1000, 0), (!0xfff, 2 * PAGE)] {
        let mut context = context();
        context.pages[0] = WrittenPages {
            address,
            bytes: vec![0; length as usize],
        };
        let error = Context::decode(&context.encode()).unwrap_err();
        assert_eq!(
            error,
            BadContext::Inconsistent("a run is not of whole pages")
        );
    }
}

/// The context of a device of this configuration, activated by its driver.
fn living(config: DeviceConfig) -> Context {
    let mut guest = Guest::activated(config);
    Context {
        mac: config.identity.mac,
        records: guest.device.freeze(),
        pages: Vec::new(),
    }
}

fn config(mac: Mac) -> DeviceConfig {
    DeviceConfig::new(Identity { mac, seed: 1 })
}

#[test]
fn a_context_is_for_an_adapter_with_its_address_and_as_much_room() {
    let own = config(MAC);
    let context = living(own);
    assert_eq!(context.check(&own), Ok(()));
    let other = config(Mac([2, 0, 0, 0, 0, 8]));
    assert!(matches!(
        context.check(&other),
        Err(BadContext::Inconsistent(_))
    ));
    let lying = Context {
        mac: other.identity.mac,
        ..context.clone()
    };
    assert!(matches!(lying.check(&other), Err(BadContext::Records(_))));
    let mut small = own;
    small.limits.qps /= 2;
    assert!(matches!(context.check(&small), Err(BadContext::Records(_))));
}

#[test]
fn more_objects_than_limits_allow_are_refused() {
    let own = config(MAC);
    let mut context = living(own);
    let qp = |id| SavedRecord {
        kind: 26,
        id,
        bytes: Vec::new(),
    };
    context.records.extend((0..=own.limits.qps).map(qp));
    let error = context.check(&own).unwrap_err();
    assert!(error.to_string().contains("more objects"), "{error}");
}

#[test]
fn without_registers_there_is_nothing_to_begin_with() {
    let mut context = context();
    context.records.clear();
    assert!(matches!(
        Context::decode(&context.encode()),
        Err(BadContext::Inconsistent(_))
    ));
}

proptest! {
    #[test]
    fn any_bytes_with_a_right_digest_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), HEAD_BYTES..400)
    ) {
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[22..24].fill(0);
        bytes[26..28].fill(0);
        let _ = Context::decode(&resealed(bytes));
    }
}
