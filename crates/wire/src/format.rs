//! The parts that every format has: a view that was checked once, and a value that parses and emits.

use core::fmt::Debug;

/// Why bytes do not match a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the header, or than it announces.
    #[error("the packet ends inside this header")]
    Short,
    /// A version that is not supported here.
    #[error("the header has an unknown version")]
    Version,
    /// A length field smaller than the header that has it, or than the format requires.
    #[error("a length field contradicts the header")]
    Length,
    /// The header's own checksum does not match.
    #[error("the header's checksum is wrong")]
    Checksum,
    /// A feature that is correct, but not RoCEv2: options, fragments.
    #[error("the header uses a feature that RoCEv2 forbids")]
    Unsupported,
    /// A code of another format, or one without a meaning.
    #[error("the header carries a code that has no meaning here")]
    Code,
}

/// The value of a format: small, and only able to hold meaningful contents.
///
/// `parse(emit(value)) == value` for every value; bytes are the same after parsing and emitting except for reserved
/// bits, which are ignored on receipt and sent as zero.
pub trait Format: Sized + Copy + PartialEq + Debug {
    /// The checked view that the value comes from.
    type View<'a>: Copy + Debug;

    /// Name of the format in messages and in the fuzz target.
    const NAME: &'static str;

    /// Checks what the view's accessors rely on, and no more: so bad packets can be shown whole.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    fn view(bytes: &[u8]) -> Result<Self::View<'_>, Malformed>;

    /// Returns the value inside a view.
    ///
    /// # Errors
    /// A code or combination that the value cannot hold.
    fn from_view(view: Self::View<'_>) -> Result<Self, Malformed>;

    /// Does [`Format::view`] and [`Format::from_view`]. Bytes after the header are ignored.
    ///
    /// # Errors
    /// The errors of the two steps.
    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::from_view(Self::view(bytes)?)
    }

    /// Returns the number of bytes that [`Format::emit`] writes.
    fn buffer_len(&self) -> usize;

    /// Writes the fields; the buffer has [`Format::buffer_len`] bytes, all zero.
    fn write(&self, buffer: &mut [u8]);

    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// If the buffer is shorter than [`Format::buffer_len`]: the caller sized it.
    fn emit(&self, buffer: &mut [u8]) {
        let header = &mut buffer[..self.buffer_len()];
        header.fill(0);
        self.write(header);
    }
}

/// Makes the view of a format: a wrapper of bytes with an accessor for each field, all of which its `Debug` shows. With
/// a length the constructor checks that many bytes; with `_` the format's own module checks.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident[$len:literal] { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a>(&'a [u8; $len]);

        impl<'a> $name<'a> {
            /// Bytes of the header.
            pub const LEN: usize = $len;

            /// Wraps the front of `bytes`.
            ///
            /// # Errors
            /// [`Malformed::Short`](crate::Malformed::Short) if the header is not whole.
            pub fn new(bytes: &'a [u8]) -> Result<Self, $crate::Malformed> {
                bytes.first_chunk().map(Self).ok_or($crate::Malformed::Short)
            }

            /// Returns the header's bytes.
            pub fn as_bytes(self) -> &'a [u8; $len] {
                self.0
            }
        }
        $crate::format::fields!($name, [u8; $len], { $($fields)* });
    };
    ($(#[$doc:meta])* $name:ident[_] { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a>(&'a [u8]);
        $crate::format::fields!($name, [u8], { $($fields)* });
    };
}

macro_rules! fields {
    ($name:ident, $bytes:ty, {
        $($(#[$doc:meta])* $field:ident($b:ident) -> $type:ty { $read:expr })*
    }) => {
        impl<'a> $name<'a> {
            $($(#[$doc])*
            pub fn $field(self) -> $type {
                let $b: &'a $bytes = self.0;
                $read
            })*
        }

        impl core::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field()))*
                    .finish()
            }
        }
    };
}

/// The parts of [`Format`] that are the same for every header of one fixed length.
macro_rules! fixed_format {
    ($view:ident, $name:literal) => {
        type View<'a> = $view<'a>;

        const NAME: &'static str = $name;

        fn view(bytes: &[u8]) -> Result<$view<'_>, $crate::Malformed> {
            $view::new(bytes)
        }

        fn buffer_len(&self) -> usize {
            $view::LEN
        }
    };
}

pub(crate) use {fields, fixed_format, view};
