//! Contexts that go from daemon to daemon.
//!
//! ```text
//!   orchestrator ──expect──────► destination: a ticket, which is good for one context
//!                ──reach───────► source ──────────────► destination: is it expected?
//!                ──hand over───► source: frozen ──────► destination: decoded, the ticket used, the context kept
//! ```

use axum::body::Bytes;
use vrdma_api::{
    ArrivedContext, Destination, FreezeRequest, HandOverRequest, HandedOverContext, Name, Ticket,
};
use vrdma_inventory::MigrationSpec;
use vrdma_switch::PortId;

use super::arrived;
use crate::control::Control;
use crate::control::answer::Problem;
use crate::handover;

impl Control {
    /// Lets another daemon bring the adapter's context, and returns where. An earlier ticket becomes void.
    pub(in crate::control) fn expect(&self, name: &Name) -> Result<Destination, Problem> {
        let port = self.inventory().port(name)?;
        let address = self.migration()?.listen;
        let mut number = [0; size_of::<u128>()];
        getrandom::fill(&mut number)
            .map_err(|error| Problem::internal(format!("no random number: {error}")))?;
        let ticket = Ticket::new(u128::from_ne_bytes(number));
        self.contexts.expected().insert(port, ticket);
        Ok(Destination { address, ticket })
    }

    /// Whether the daemon there expects the adapter's context.
    pub(in crate::control) async fn reach(
        &self,
        name: &Name,
        to: Destination,
    ) -> Result<(), Problem> {
        self.inventory().port(name)?;
        let keys = &self.migration()?.keys;
        let reached = handover::reach(keys, name, to);
        reached.await.map_err(Problem::conflict)
    }

    /// Stops the adapter and brings its context to another daemon. If that fails, the caller has to thaw the adapter:
    /// meanwhile, somebody else may have begun another migration.
    pub(in crate::control) async fn hand_over(
        &self,
        name: &Name,
        request: HandOverRequest,
    ) -> Result<HandedOverContext, Problem> {
        let keys = &self.migration()?.keys;
        let leaves_pages = request.leaves_pages;
        let context = self.freeze(name, FreezeRequest { leaves_pages }).await?;
        let arrived = handover::deliver(keys, name, request.to, &context);
        Ok(HandedOverContext {
            bytes: context.len() as u64,
            arrived: arrived.await.map_err(Problem::conflict)?,
        })
    }

    /// Whether another daemon may bring that adapter's context. The error is a sentence.
    pub(crate) fn check_expected(&self, name: &Name, ticket: Ticket) -> Result<(), String> {
        let port = self.inventory().port(name);
        let port = port.map_err(|refusal| refusal.to_string())?;
        self.check_ticket(port, name, ticket)
    }

    fn check_ticket(&self, port: PortId, name: &Name, ticket: Ticket) -> Result<(), String> {
        match self.contexts.expected().get(&port) == Some(&ticket) {
            true => Ok(()),
            false => Err(format!(
                "it expects no context of adapter {name}, or another one: its daemon was started anew, or another migration of the adapter has begun"
            )),
        }
    }

    /// Keeps a context that another daemon has brought. The error is a sentence.
    pub(crate) async fn keep_expected(
        &self,
        name: &Name,
        ticket: Ticket,
        bytes: Vec<u8>,
    ) -> Result<ArrivedContext, String> {
        let told = |problem: Problem| problem.sentence().to_owned();
        let decoded = self.decode_context(name, Bytes::from(bytes)).await;
        let (port, kept) = decoded.map_err(told)?;
        let arrived = arrived(&kept.context, false);
        // The ticket may have been withdrawn while the context was on its way.
        self.check_ticket(port, name, ticket)?;
        self.contexts.keep(port, kept).map_err(told)?;
        self.contexts.expected().remove(&port);
        tracing::info!("the context of adapter {name} has come from another daemon");
        Ok(arrived)
    }

    /// How contexts are sent to and received from other daemons, if they are.
    pub(crate) fn migration_spec(&self) -> Option<&MigrationSpec> {
        self.facts.migration.as_ref()
    }

    fn migration(&self) -> Result<&MigrationSpec, Problem> {
        self.migration_spec().ok_or_else(|| {
            Problem::conflict(
                "this daemon has no [migration] in its configuration: give it `listen` and `key`, or let who migrates carry the context"
                    .to_owned(),
            )
        })
    }
}
