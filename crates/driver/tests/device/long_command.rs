//! Registrations of many pages are carried out piece by piece.

use vrdma_driver::object::{Context, Pd, rights};
use vrdma_driver::{CommandError, Directory, Fabric, Guest};
use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::register::{Control, Register};
use vrdma_pvrdma::abi::request::CreateMr;
use vrdma_pvrdma::abi::response::CreatedMr;

/// Most pages of a region; 4096 are read in one piece.
const PAGES: usize = 1 << 18;
const PIECES: usize = PAGES / 4096;

struct Registering {
    fabric: Fabric,
    guest: usize,
    pd: Pd,
    directory: Directory,
}

impl Registering {
    fn begin() -> Self {
        let mut fabric = Fabric::new();
        let guest = fabric.add();
        let vm = &mut fabric[guest];
        let pd = vm.create_pd(Context::KERNEL).unwrap();
        let page = vm.ram.take();
        let directory = Directory::build(&mut vm.ram, vec![page; PAGES]);
        let mut registering = Self {
            fabric,
            guest,
            pd,
            directory,
        };
        let request = registering.request();
        registering.vm().begin(Command::CreateMr, &request);
        assert!(registering.vm().device.is_busy());
        registering
    }

    fn request(&self) -> CreateMr {
        CreateMr {
            start: PAGE.into(),
            length: (PAGES as u64 * PAGE).into(),
            pdir_dma: self.directory.address.into(),
            pd_handle: self.pd.handle.into(),
            access_flags: rights::ALL.into(),
            flags: 0.into(),
            nchunks: self.directory.count().into(),
        }
    }

    fn vm(&mut self) -> &mut Guest {
        &mut self.fabric[self.guest]
    }

    fn answer(&mut self) -> Result<CreatedMr, CommandError> {
        self.vm().answer(Command::CreateMr)
    }
}

#[test]
fn it_is_done_while_the_device_is_polled() {
    let mut registering = Registering::begin();
    let mut turns = 1;
    while registering.vm().device.is_busy() {
        assert!(registering.fabric.turn());
        turns += 1;
    }
    assert_eq!(turns, PIECES);
    registering.answer().unwrap();
}

#[test]
fn who_reads_the_outcome_waits_for_it() {
    let mut registering = Registering::begin();
    registering.answer().unwrap();
    assert!(!registering.vm().device.is_busy());
}

#[test]
fn what_is_wrong_with_a_late_page_is_told() {
    let mut registering = Registering::begin();
    let last = registering.directory.entry_at(PAGES - 1);
    registering.vm().ram.write(last, &1_u64);
    let refused = registering.answer();
    assert!(matches!(refused, Err(CommandError::Refused(_))));
    let page = registering.directory.pages[0];
    registering.vm().ram.write(last, &page);
    let request = registering.request();
    registering.vm().begin(Command::CreateMr, &request);
    registering.answer().expect("its pages were given back");
}

#[test]
fn a_reset_forgets_it() {
    let mut registering = Registering::begin();
    let vm = registering.vm();
    vm.write_register(Register::Control, Control::Reset as u32);
    assert!(!vm.device.is_busy());
    vm.probe().unwrap();
}
