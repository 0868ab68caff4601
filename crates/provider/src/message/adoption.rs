//! The outcome of the library's attempt to adopt a region's memory.

macro_rules! adoptions {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// The outcome of an attempt to adopt a region's memory.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum Adoption {
            $($(#[$doc])* $name = $number,)*
        }

        impl Adoption {
            /// All outcomes, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Finds an outcome by its number in a message.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The outcome's name, for people and programs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

adoptions! {
    /// The program does not ask for adoption.
    NotAsked = 0 "not asked for",
    /// All whole pages are adopted.
    Adopted = 1 "adopted",
    /// No whole page lies inside the region.
    NoWholePage = 2 "no whole page",
    /// The memory is a file, shared, read-only, executable, or not mapped.
    NotPlain = 3 "not plain memory",
    /// The memory is a stack.
    Stack = 4 "stack",
    /// The kernel's own accesses would not wait for pages, and other threads or an io_uring might run into that.
    Threads = 5 "several threads without a full userfaultfd",
    /// The memory is also in another current region, which is reached by address.
    ReachedByAddress = 6 "in another region by address",
    /// Pages are pinned.
    Pinned = 7 "pinned pages",
    /// Pages are locked, or cannot be moved for another reason.
    Locked = 8 "locked pages",
    /// Each separate range takes a mapping, and they would be too many.
    TooManyRanges = 9 "too many ranges",
    /// Adopting took too much of the time recently.
    Budget = 10 "time budget spent",
    /// The kernel lacks something or failed.
    Kernel = 11 "kernel",
    /// The library is not loaded before libc, so it does not see `madvise` and similar calls.
    NotPreloaded = 12 "library not preloaded",
    /// `RLIMIT_FSIZE` is set.
    FileLimit = 13 "limit of file sizes",
    /// The program has closed the file.
    FileClosed = 14 "descriptor closed by the program",
    /// The region is on demand: no page is needed before it is touched.
    OnDemand = 15 "on demand",
    /// A filter of system calls forbids a userfaultfd, or might end the program for asking for one.
    Filter = 16 "filter of system calls",
    /// Moving that much memory would take too long.
    TooLong = 17 "too long to move",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_number() {
        for (number, adoption) in Adoption::ALL.iter().enumerate() {
            assert_eq!(*adoption as usize, number, "{}", adoption.name());
            assert_eq!(Adoption::from_number(number as u32), Some(*adoption));
        }
        assert_eq!(Adoption::from_number(Adoption::ALL.len() as u32), None);
    }
}
