//! Words of the configuration, the API and the command line: a word that is accepted is the same when it is printed and
//! read again.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use vrdma_api::{
    AdapterKind, DoorbellMode, Endpoint, Interface, MacAddress, Name, OpsRate, Rate, Ticket,
    UnixName, Vlan, Vni, Weight,
};
use vrdma_uplink::FaultSpec;

/// Reads the input as each kind of word.
pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    reads_back::<AdapterKind>(text);
    reads_back::<DoorbellMode>(text);
    reads_back::<Endpoint>(text);
    reads_back::<FaultSpec>(text);
    reads_back::<Interface>(text);
    reads_back::<MacAddress>(text);
    reads_back::<Name>(text);
    reads_back::<OpsRate>(text);
    reads_back::<Rate>(text);
    reads_back::<Ticket>(text);
    reads_back::<UnixName>(text);
    reads_back::<Vlan>(text);
    reads_back::<Vni>(text);
    reads_back::<Weight>(text);
}

fn reads_back<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(word) => {
            let again = word.to_string().parse().ok();
            assert_eq!(again.as_ref(), Some(&word), "{text:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{text:?}"),
    }
}
