//! The daemon's half of regions, and their number by how they are reached.

use vrdma_adapter::Slots;
use vrdma_provider::message::Adoption;

use crate::objects::Mr;

/// How the memory of a region is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// All of it is a file that is mapped here.
    File,
    /// A part of it is a file that is mapped here.
    PartlyFile,
    /// By its addresses.
    Addresses,
}

/// Number of regions by how they are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionCounts {
    /// Shared mappings of files, made by the program itself.
    pub mapped: u32,
    /// Memory that the library has moved into its file.
    pub adopted: u32,
    /// Memory that the library has moved into its file, except the edges.
    pub adopted_in_part: u32,
    /// Regions reached by their addresses, by the number of the reason.
    by_address: [u32; Adoption::ALL.len()],
}

impl RegionCounts {
    /// Returns how many regions are reached by their addresses for each reason, without reasons that do not occur.
    /// [`Adoption::Adopted`]: the library has moved them, but the daemon had no room for the mapping.
    pub fn by_address(&self) -> impl Iterator<Item = (Adoption, u32)> {
        let all = Adoption::ALL.iter().copied().zip(self.by_address);
        all.filter(|(_, count)| *count > 0)
    }

    fn of(&mut self, mr: &Mr) -> &mut u32 {
        match (mr.way, mr.adoption) {
            (Reached::File, Adoption::Adopted) => &mut self.adopted,
            (Reached::PartlyFile, _) => &mut self.adopted_in_part,
            (Reached::File, _) => &mut self.mapped,
            (Reached::Addresses, why) => &mut self.by_address[why as usize],
        }
    }
}

/// The daemon's half of regions, and their counts.
pub(crate) struct Regions {
    slots: Slots<Mr>,
    counts: RegionCounts,
}

impl Regions {
    pub(crate) fn new() -> Self {
        Self {
            slots: Slots::new(),
            counts: RegionCounts::default(),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Mr> {
        self.slots.get(id)
    }

    /// Returns a region for changes, except of how it is reached: that is [`Regions::put`].
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Mr> {
        self.slots.get_mut(id)
    }

    /// Adds a region, and returns the one that had its number.
    pub(crate) fn put(&mut self, id: u32, mr: Mr) -> Option<Mr> {
        let old = self.take(id);
        *self.counts.of(&mr) += 1;
        self.slots.put(id, mr);
        old
    }

    pub(crate) fn take(&mut self, id: u32) -> Option<Mr> {
        let mr = self.slots.take(id)?;
        *self.counts.of(&mr) -= 1;
        Some(mr)
    }

    pub(crate) fn counts(&self) -> RegionCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use vrdma_verbs::object::Owner;

    use super::*;

    fn mr(way: Reached, adoption: Adoption) -> Mr {
        Mr {
            owner: Owner(0),
            mapped: 0,
            file: None,
            leaving: None,
            way,
            adoption,
            enclosed_in: None,
        }
    }

    #[test]
    fn what_is_counted_is_what_is_there() {
        let mut regions = Regions::new();
        regions.put(0, mr(Reached::File, Adoption::Adopted));
        regions.put(1, mr(Reached::File, Adoption::NotAsked));
        regions.put(2, mr(Reached::PartlyFile, Adoption::Adopted));
        regions.put(3, mr(Reached::Addresses, Adoption::Pinned));
        regions.put(4, mr(Reached::Addresses, Adoption::Pinned));
        let counts = regions.counts();
        assert_eq!(
            (counts.adopted, counts.mapped, counts.adopted_in_part),
            (1, 1, 1)
        );
        assert_eq!(
            counts.by_address().collect::<Vec<_>>(),
            [(Adoption::Pinned, 2)]
        );
        assert!(
            regions
                .put(4, mr(Reached::File, Adoption::NotAsked))
                .is_some()
        );
        assert_eq!(regions.counts().mapped, 2);
        (0..5).for_each(|id| drop(regions.take(id)));
        assert_eq!(regions.counts(), RegionCounts::default());
    }
}
