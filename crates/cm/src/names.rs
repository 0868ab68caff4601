//! Names of connections, which nobody can guess.

use alloc::boxed::Box;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vrdma_wire::cm::CommId;

/// A generator is made for the first name: most adapters never connect, and it is larger than all else that they have.
pub(crate) struct Names {
    seed: u64,
    generator: Option<Box<ChaCha8Rng>>,
}

impl Names {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let generator = None;
        Self { seed, generator }
    }

    /// The next one, which may be taken.
    pub(crate) fn draw(&mut self) -> CommId {
        let fresh = || Box::new(ChaCha8Rng::seed_from_u64(self.seed));
        CommId(self.generator.get_or_insert_with(fresh).next_u32())
    }
}
