//! What became of the library's attempt to adopt a region's memory.

macro_rules! adoptions {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// See the module.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum Adoption {
            $($(#[$doc])* $name = $number,)*
        }

        impl Adoption {
            /// All, by their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// From the number in a message.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// For people and programs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

adoptions! {
    /// The program does not ask for it.
    NotAsked = 0 "not asked for",
    /// All whole pages are adopted.
    Adopted = 1 "adopted",
    /// No page lies inside the region as a whole.
    NoWholePage = 2 "no whole page",
    /// A file, shared, read-only, executable, or not mapped.
    NotPlain = 3 "not plain memory",
    /// A stack.
    Stack = 4 "stack",
    /// The kernel would not wait for pages, and other threads or an io_uring might meet that.
    Threads = 5 "several threads without a full userfaultfd",
    /// Another region of now goes by address there.
    ReachedByAddress = 6 "in another region by address",
    /// Pages are pinned.
    Pinned = 7 "pinned pages",
    /// Pages are locked, or cannot be moved for another reason.
    Locked = 8 "locked pages",
    /// Each range that lies apart is a mapping.
    TooManyRanges = 9 "too many ranges",
    /// Adopting took too much of the time lately.
    Budget = 10 "time budget spent",
    /// The kernel lacks something or failed.
    Kernel = 11 "kernel",
    /// The library does not stand before libc, so `madvise` and others are not seen.
    NotPreloaded = 12 "library not preloaded",
    /// `RLIMIT_FSIZE` is set.
    FileLimit = 13 "limit of file sizes",
    /// The program has closed the file.
    FileClosed = 14 "descriptor closed by the program",
    /// No page is needed before it is touched.
    OnDemand = 15 "on demand",
    /// A filter of system calls might end the program for asking for a userfaultfd, or forbids it.
    Filter = 16 "filter of system calls",
    /// Moving so much would take too long.
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
