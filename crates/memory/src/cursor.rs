//! A walk along a region, one stretch of host memory after the other.

use crate::map::Window;
use crate::{Fault, Region, Right, View};

/// The position of an access.
pub(crate) struct Cursor<'v> {
    view: &'v View<'v>,
    region: &'v Region,
    right: Right,
    offset: u64,
    left: u64,
    window: Option<Window<'v>>,
}

impl<'v> Cursor<'v> {
    pub(crate) fn new(
        view: &'v View<'v>,
        region: &'v Region,
        offset: u64,
        length: u64,
        right: Right,
    ) -> Self {
        Self {
            view,
            region,
            right,
            offset,
            left: length,
            window: None,
        }
    }

    /// Bytes still to go.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns what can be touched next in one piece; at least one byte while some are left.
    pub(crate) fn window(&mut self) -> Result<Window<'v>, Fault> {
        match self.window {
            Some(window) if window.length() > 0 => Ok(window),
            _ => self.next(),
        }
    }

    fn next(&mut self) -> Result<Window<'v>, Fault> {
        let window = match self.region {
            Region::File(file) => file.window(self.offset, self.left, self.right)?,
            region => {
                let (bus, length) = region.run(self.offset, self.left).ok_or(Fault::Gone)?;
                self.view.window(bus, length, self.right)?
            }
        };
        self.window = Some(window);
        Ok(window)
    }

    /// Counts `length` bytes, which are inside the window, as done.
    pub(crate) fn advance(&mut self, length: usize) {
        if let Some(window) = &mut self.window {
            window.skip(length);
        }
        // No wrap: a window ends inside a map or a page list, and neither reaches 2^64.
        self.offset += length as u64;
        self.left -= length as u64;
    }
}
