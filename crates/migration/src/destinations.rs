//! Decides how the adapters' contexts get to the destination: through the source's daemon, if both daemons are
//! configured for it, or through this program.

use vrdma_api::Destination;

use crate::Hosts;
use crate::error::Cause;

/// Returns where the source's daemon is to bring each context, in the order of the adapters; nothing if this program
/// brings them.
pub(crate) fn agree(hosts: &Hosts) -> Result<Vec<Destination>, Cause> {
    let (source, destination) = (&hosts.source, &hosts.destination);
    let listen = [source, destination].map(|host| host.first_adapter().daemon_listens());
    let [source_listens, destination_listens] = listen;
    if !(source_listens? && destination_listens?) {
        return Ok(Vec::new());
    }
    let both = source.adapters.iter().zip(&destination.adapters);
    both.map(|(here, there)| {
        let to = there.expect()?;
        here.reach(to)?;
        Ok(to)
    })
    .collect()
}
