use rustix::fs::ftruncate;

use super::SharedPages;
use crate::{Fault, PAGE, Protection, Space};

#[test]
fn words_are_shared_with_whoever_maps_the_pages() {
    let pages = SharedPages::new(2).unwrap();
    let guest = Space::new();
    let fd = pages.fd().try_clone_to_owned().unwrap();
    guest.map(0, 2 * PAGE, Protection::BOTH, fd, 0).unwrap();
    guest.view().store_u32_release(PAGE + 4, 7).unwrap();
    assert_eq!(pages.load_u32(PAGE as usize + 4), Ok(7));
    assert_eq!(pages.swap_u32(PAGE as usize + 4, 9), Ok(7));
    assert_eq!(guest.view().load_u32_acquire(PAGE + 4), Ok(9));
    pages.store_u32(0, 1).unwrap();
    assert_eq!(guest.view().load_u64_acquire(0), Ok(1));
}

#[test]
fn words_outside_or_askew_are_refused() {
    let pages = SharedPages::new(1).unwrap();
    assert_eq!(pages.length(), 4096);
    for offset in [2, 4094, 4096, usize::MAX - 3] {
        assert_eq!(pages.load_u32(offset), Err(Fault::Gone));
    }
    assert_eq!(pages.load_u32(4092), Ok(0));
}

#[test]
fn the_size_cannot_be_changed() {
    let pages = SharedPages::new(1).unwrap();
    for size in [0, 8192] {
        assert_eq!(ftruncate(pages.fd(), size), Err(rustix::io::Errno::PERM));
    }
    assert!(SharedPages::new(usize::MAX).is_err());
}
