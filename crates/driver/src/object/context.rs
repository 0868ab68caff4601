//! Contexts of programs and protection domains.

use vrdma_pvrdma::abi::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{self, CreateUc, Handle};
use vrdma_pvrdma::abi::response::Created;

use crate::command::CommandError;
use crate::guest::Guest;
use crate::ram::DOORBELL_BASE;

/// A program that opened the device, or the guest's kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Handle.
    pub handle: u32,
    /// Doorbell page.
    pub page: u32,
}

impl Context {
    /// The guest's kernel.
    pub const KERNEL: Self = Self { handle: 0, page: 0 };
}

/// A protection domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pd {
    /// Handle.
    pub handle: u32,
    /// Context that owns it.
    pub context: Context,
}

impl Guest {
    /// Opens the device for a program, with the first free doorbell page.
    pub fn open(&mut self) -> Result<Context, CommandError> {
        let free = self.driver().pages_in_use.iter().position(|used| !used);
        let page = free.expect("the test opens fewer contexts than there are pages") as u32;
        let request = CreateUc {
            pfn: (DOORBELL_BASE / PAGE + u64::from(page)).into(),
        };
        let created: Created = self.ask(Command::CreateUc, &request)?;
        self.mark_page(page, true);
        let handle = created.handle.get();
        Ok(Context { handle, page })
    }

    /// Closes a program's context.
    pub fn close(&mut self, context: Context) -> Result<(), CommandError> {
        let request = request::Context {
            ctx_handle: context.handle.into(),
            reserved: 0.into(),
        };
        self.mark_page(context.page, false);
        self.tell(Command::DestroyUc, &request)
    }

    fn mark_page(&mut self, page: u32, used: bool) {
        if let Some(driver) = &mut self.driver {
            driver.pages_in_use[page as usize] = used;
        }
    }

    /// Creates a protection domain.
    pub fn create_pd(&mut self, context: Context) -> Result<Pd, CommandError> {
        let request = request::Context {
            ctx_handle: context.handle.into(),
            reserved: 0.into(),
        };
        let created: Created = self.ask(Command::CreatePd, &request)?;
        let handle = created.handle.get();
        Ok(Pd { handle, context })
    }

    /// Destroys a protection domain.
    pub fn destroy_pd(&mut self, pd: Pd) -> Result<(), CommandError> {
        self.tell(Command::DestroyPd, &handle_of(pd.handle))
    }
}

/// Body of the commands that only name an object.
pub(super) fn handle_of(handle: u32) -> Handle {
    Handle {
        handle: handle.into(),
        reserved: 0.into(),
    }
}
