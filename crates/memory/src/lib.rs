//! Guest and client memory: DMA maps, page lists, access checks, one-copy
