//! Regions: what the daemon is asked for, and what the library knows afterwards.

use rustix::io::Errno as Refusal;
use vrdma_provider::message::access::{
    LOCAL_WRITE, MW_BIND, ON_DEMAND, REMOTE_READ, REMOTE_WRITE, ZERO_BASED,
};
use vrdma_provider::message::{Adoption, DeregMr, FileRange, RegMr, ReregMr};

use super::*;
use crate::advise::advise_mr;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::answers::{LKEY, RKEY};

/// Returns where 8 bytes from `addr` on are, as a work request names them.
fn located(device: &TestDevice, lkey: u32, addr: u64) -> Option<u64> {
    let regions = device.regions.read();
    regions.get(&lkey)?.locate(addr, 8)
}

/// Memory of two regions.
struct Scene {
    device: TestDevice,
    pd: *mut abi::Pd,
    memory: Box<[u8; 8192]>,
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let pd = device.pd();
        Self {
            device,
            pd,
            memory: Box::new([0; 8192]),
        }
    }

    fn start(&self) -> *mut c_void {
        self.memory.as_ptr().cast_mut().cast()
    }

    fn address(&self) -> u64 {
        self.start() as u64
    }

    /// Registers the first half of the memory, at an address of its own.
    fn register(&self, iova: u64, access: u32) -> *mut abi::Mr {
        // SAFETY: a domain of the device.
        let mr = unsafe { ibv_reg_mr_iova2(self.pd, self.start(), 4096, iova, access) };
        assert!(!mr.is_null());
        mr
    }
}

#[test]
fn the_daemon_is_asked_for_what_the_program_wants() {
    let scene = Scene::new();
    let own = scene.address();
    let wanted = LOCAL_WRITE | REMOTE_READ;
    for (iova, access, told) in [
        (own, wanted, own),
        (0x7000, wanted, 0x7000),
        (0x7000, wanted | ZERO_BASED, 0),
    ] {
        let mr = scene.register(iova, access);
        let asked: RegMr = scene.device.last();
        // SAFETY: just made.
        let (mr, pd) = unsafe { (&*mr, (*scene.pd).handle) };
        let wanted = RegMr {
            address: own,
            length: 4096,
            iova: told,
            pd,
            access,
            file: FileRange::default(),
            adoption: Adoption::NotAsked as u32,
            reserved: 0,
        };
        assert_eq!(asked, wanted);
        assert_eq!((mr.addr as u64, mr.length, mr.pd), (own, 4096, scene.pd));
        assert_eq!((mr.lkey, mr.rkey), (LKEY + mr.handle, RKEY + mr.handle));
        assert_eq!(
            located(&scene.device, mr.lkey, told + 4088),
            Some(own + 4088)
        );
        assert_eq!(located(&scene.device, mr.lkey, told + 4089), None);
    }
}

#[test]
fn memory_that_is_not_there_is_refused_without_asking() {
    let scene = Scene::new();
    let text = "read-only data of the program";
    let (nowhere, constant) = (0x1000 as *mut c_void, text.as_ptr().cast_mut().cast());
    let rights = [LOCAL_WRITE, REMOTE_WRITE, access::REMOTE_ATOMIC];
    let mut cases = vec![(nowhere, 0)];
    cases.extend(rights.map(|right| (constant, right)));
    for (start, access) in cases {
        // SAFETY: a domain of the device.
        let mr = unsafe { ibv_reg_mr(scene.pd, start, text.len(), access as c_int) };
        assert!(mr.is_null() && Errno::last() == Errno(libc::EFAULT));
    }
    assert!(scene.device.daemon().asked::<RegMr>().is_empty());
    // SAFETY: as above.
    unsafe {
        assert!(!ibv_reg_mr(scene.pd, constant, text.len(), REMOTE_READ as c_int).is_null());
        let later = ibv_reg_mr(scene.pd, nowhere, 4096, ON_DEMAND as c_int);
        assert!(!later.is_null(), "its pages may come later");
        let no_domain = ibv_reg_mr(core::ptr::null_mut(), constant, 1, 0);
        assert!(no_domain.is_null() && Errno::last() == Errno(libc::EINVAL));
    }
}

#[test]
fn a_region_ends_when_the_daemon_says_so() {
    let scene = Scene::new();
    let mr = scene.register(scene.address(), 0);
    // SAFETY: just made.
    let lkey = unsafe { (*mr).lkey };
    scene.device.daemon().refuse::<DeregMr>(Refusal::BUSY);
    // SAFETY: a region, which is there after the refusal.
    assert_eq!(unsafe { ibv_dereg_mr(mr) }, libc::EBUSY);
    assert!(located(&scene.device, lkey, scene.address()).is_some());
    // A peer is in the middle of a copy.
    scene.device.daemon().refuse::<DeregMr>(Refusal::AGAIN);
    scene.device.daemon().refuse::<DeregMr>(Refusal::AGAIN);
    // SAFETY: given up.
    assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
    assert_eq!(located(&scene.device, lkey, scene.address()), None);
    assert_eq!(scene.device.daemon().asked::<DeregMr>().len(), 4);
}

/// The address of the region before a change, and its access rights.
const IOVA: u64 = 0x7000;
const BEFORE: u32 = LOCAL_WRITE | MW_BIND;

/// Arguments of `ibv_rereg_mr`, and the region afterwards.
struct Change {
    flags: c_int,
    access: u32,
    /// Whether it is the second half of the memory instead of the first.
    moved: bool,
    /// Where its addresses begin, if not at those of the memory.
    iova: Option<u64>,
    rights: u32,
}

const CHANGES: &[Change] = &[
    Change {
        flags: CHANGE_ACCESS,
        access: REMOTE_READ,
        moved: false,
        iova: Some(IOVA),
        rights: REMOTE_READ,
    },
    Change {
        flags: CHANGE_DOMAIN,
        access: REMOTE_READ,
        moved: false,
        iova: Some(IOVA),
        rights: BEFORE,
    },
    Change {
        flags: CHANGE_MEMORY,
        access: REMOTE_READ,
        moved: true,
        iova: None,
        rights: BEFORE,
    },
    Change {
        flags: CHANGE_MEMORY | CHANGE_ACCESS,
        access: REMOTE_READ,
        moved: true,
        iova: None,
        rights: REMOTE_READ,
    },
    Change {
        flags: CHANGE_ACCESS,
        access: ZERO_BASED,
        moved: false,
        iova: Some(0),
        rights: ZERO_BASED,
    },
    Change {
        flags: CHANGE_MEMORY | CHANGE_ACCESS,
        access: ZERO_BASED,
        moved: true,
        iova: Some(0),
        rights: ZERO_BASED,
    },
];

#[test]
fn a_region_is_changed_as_far_as_the_flags_say() {
    let scene = Scene::new();
    let other = scene.device.pd();
    for change in CHANGES {
        let (flags, access) = (change.flags, change.access);
        let what = format!("flags {flags} access {access}");
        let mr = scene.register(IOVA, BEFORE);
        let half = scene.address() + 4096;
        let outcome = {
            let start = half as *mut c_void;
            // SAFETY: a region and a domain of the device.
            unsafe { ibv_rereg_mr(mr, flags, other, start, 100, access as c_int) }
        };
        assert_eq!(outcome, 0, "{what}");
        let changes_domain = flags & CHANGE_DOMAIN != 0;
        let domain = if changes_domain { other } else { scene.pd };
        // SAFETY: the region and the domain are there.
        let (mr, pd) = unsafe { (&*mr, (*domain).handle) };
        let to = if change.moved { half } else { scene.address() };
        let length = if change.moved { 100 } else { 4096 };
        let iova = change.iova.unwrap_or(to);
        let asked: ReregMr = scene.device.last();
        let request = asked.wanted;
        assert_eq!((asked.mr, request.pd), (mr.handle, pd), "{what}");
        let place = (request.address, request.length);
        assert_eq!(place, (to, length), "{what}");
        let meaning = (request.iova, request.access);
        assert_eq!(meaning, (iova, change.rights), "{what}");
        assert_eq!((mr.addr as u64, mr.length as u64), (to, length), "{what}");
        assert_eq!(located(&scene.device, mr.lkey, iova), Some(to), "{what}");
    }
}

/// Each change begins where the last ended, not where the region was registered.
#[test]
fn changes_add_up() {
    let scene = Scene::new();
    let mr = scene.register(IOVA, ZERO_BASED);
    let half = (scene.address() + 4096) as *mut c_void;
    let change = |flags, access| {
        // SAFETY: a region and a domain of the device.
        let outcome = unsafe { ibv_rereg_mr(mr, flags, scene.pd, half, 64, access) };
        assert_eq!(outcome, 0);
        let asked: ReregMr = scene.device.last();
        let wanted = asked.wanted;
        (wanted.address, wanted.iova, wanted.access)
    };
    let moved = scene.address() + 4096;
    assert_eq!(change(CHANGE_MEMORY, 0), (moved, 0, ZERO_BASED));
    let access = LOCAL_WRITE as c_int;
    assert_eq!(change(CHANGE_ACCESS, access), (moved, moved, LOCAL_WRITE));
    assert_eq!(change(CHANGE_DOMAIN, 0), (moved, moved, LOCAL_WRITE));
}

#[test]
fn a_change_that_is_refused_leaves_the_region_as_it_was() {
    let scene = Scene::new();
    let mr = scene.register(IOVA, 0);
    let rereg = |flags, start| {
        // SAFETY: a region and a domain of the device.
        let outcome = unsafe { ibv_rereg_mr(mr, flags, scene.pd, start, 64, 0) };
        (outcome, Errno::last())
    };
    let asked = || scene.device.daemon().asked::<ReregMr>().len();
    for flags in [0, 8, 8 | CHANGE_ACCESS] {
        assert_eq!(
            rereg(flags, scene.start()),
            (STILL_GOOD, Errno(libc::EINVAL))
        );
    }
    let nowhere = 0x1000 as *mut c_void;
    assert_eq!(
        rereg(CHANGE_MEMORY, nowhere),
        (STILL_GOOD, Errno(libc::EFAULT))
    );
    assert_eq!(asked(), 0, "none of these reaches the daemon");
    scene.device.daemon().refuse::<ReregMr>(Refusal::BUSY);
    assert_eq!(
        rereg(CHANGE_MEMORY, scene.start()),
        (STILL_GOOD, Errno(libc::EBUSY))
    );
    // SAFETY: the region is there.
    let region = unsafe { &*mr };
    assert_eq!((region.addr, region.length), (scene.start(), 4096));
    assert!(located(&scene.device, region.lkey, IOVA + 4088).is_some());
}

#[test]
fn only_what_is_there_can_be_prefetched() {
    let scene = Scene::new();
    let mr = scene.register(IOVA, 0);
    // SAFETY: just made.
    let lkey = unsafe { (*mr).lkey };
    let sge = |addr, lkey| abi::Sge {
        addr,
        length: 64,
        lkey,
    };
    let (inside, outside) = (sge(IOVA, lkey), sge(IOVA + 4090, lkey));
    let (mapped, nowhere) = (sge(scene.address(), 1), sge(0x1000, 1));
    let constant = "read-only data of the program, so long that it may be prefetched in whole";
    let constant = sge(constant.as_ptr() as u64, 1);
    for (advice, list, wanted) in [
        (0, vec![inside, mapped], 0),
        (1, vec![inside], 0),
        (2, vec![], 0),
        (0, vec![inside, outside], libc::EFAULT),
        (0, vec![nowhere], libc::EFAULT),
        (0, vec![constant], 0),
        (1, vec![constant], libc::EFAULT),
        (3, vec![inside], libc::EINVAL),
    ] {
        let mut list = list;
        let (start, count) = (list.as_mut_ptr(), list.len() as u32);
        // SAFETY: a domain of the device and a list of that length.
        let outcome = unsafe { advise_mr(scene.pd, advice, 0, start, count) };
        assert_eq!(outcome, wanted);
    }
    let none = core::ptr::null_mut();
    // SAFETY: a null list is refused.
    assert_eq!(unsafe { advise_mr(scene.pd, 0, 0, none, 1) }, libc::EINVAL);
}
