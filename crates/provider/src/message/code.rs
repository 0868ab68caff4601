//! Numbers of the requests.

/// First code of connection management.
pub const CM_CODES: u32 = 128;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kinds of requests.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Finds a kind by its number in a header.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// [`ListAdapter`](super::ListAdapter)
    ListAdapter = 1,
    /// [`Hello`](super::Hello)
    Hello = 2,
    /// [`QueryDevice`](super::QueryDevice)
    QueryDevice = 3,
    /// [`QueryPort`](super::QueryPort)
    QueryPort = 4,
    /// [`QueryGid`](super::QueryGid)
    QueryGid = 5,
    /// [`AllocPd`](super::AllocPd)
    AllocPd = 6,
    /// [`DeallocPd`](super::DeallocPd)
    DeallocPd = 7,
    /// [`RegMr`](super::RegMr)
    RegMr = 8,
    /// [`DeregMr`](super::DeregMr)
    DeregMr = 9,
    /// [`AllocMw`](super::AllocMw)
    AllocMw = 10,
    /// [`DeallocMw`](super::DeallocMw)
    DeallocMw = 11,
    /// [`CreateChannel`](super::CreateChannel)
    CreateChannel = 12,
    /// [`DestroyChannel`](super::DestroyChannel)
    DestroyChannel = 13,
    /// [`CreateCq`](super::CreateCq)
    CreateCq = 14,
    /// [`ResizeCq`](super::ResizeCq)
    ResizeCq = 15,
    /// [`DestroyCq`](super::DestroyCq)
    DestroyCq = 16,
    /// [`CreateSrq`](super::CreateSrq)
    CreateSrq = 17,
    /// [`ModifySrq`](super::ModifySrq)
    ModifySrq = 18,
    /// [`QuerySrq`](super::QuerySrq)
    QuerySrq = 19,
    /// [`DestroySrq`](super::DestroySrq)
    DestroySrq = 20,
    /// [`CreateQp`](super::CreateQp)
    CreateQp = 21,
    /// [`ModifyQp`](super::ModifyQp)
    ModifyQp = 22,
    /// [`QueryQp`](super::QueryQp)
    QueryQp = 23,
    /// [`DestroyQp`](super::DestroyQp)
    DestroyQp = 24,
    /// [`AttachMcast`](super::AttachMcast)
    AttachMcast = 25,
    /// [`DetachMcast`](super::DetachMcast)
    DetachMcast = 26,
    /// [`ReregMr`](super::ReregMr)
    ReregMr = 27,
    /// [`Reach`](super::Reach)
    Reach = 28,
    /// [`FindAdapter`](super::FindAdapter)
    FindAdapter = 29,
    /// [`Userfaultfd`](super::Userfaultfd)
    Userfaultfd = 30,
}
