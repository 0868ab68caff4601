//! Recognition of a device's paths.

/// The meaning of such a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DevicePath<'a> {
    /// The node of a device.
    Node,
    /// A file below a device's folder, or the folder.
    Fact {
        /// The device.
        index: u32,
        /// The path behind the folder: empty, or from its slash on.
        rest: &'a [u8],
    },
}

fn number(text: &[u8]) -> Option<u32> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Returns what a path stands for: one comparison for nearly every path of a program.
pub(super) fn place(path: &[u8]) -> Option<DevicePath<'_>> {
    if let Some(index) = path.strip_prefix(b"/dev/infiniband/uverbs") {
        return number(index).map(|_| DevicePath::Node);
    }
    let rest = path.strip_prefix(b"/sys/class/infiniband/vrdma")?;
    let end = rest.iter().position(|byte| *byte == b'/');
    let (index, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let index = number(index)?;
    Some(DevicePath::Fact { index, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_paths_are_ours() {
        assert_eq!(place(b"/dev/infiniband/uverbs0"), Some(DevicePath::Node));
        assert_eq!(place(b"/dev/infiniband/uverbs"), None);
        assert_eq!(place(b"/dev/infiniband/uverbs0/x"), None);
        assert_eq!(place(b"/dev/infiniband/rdma_cm"), None);
        let fact = |index, rest: &'static [u8]| Some(DevicePath::Fact { index, rest });
        let device = b"/sys/class/infiniband/vrdma1";
        assert_eq!(place(device), fact(1, b""));
        let file = b"/sys/class/infiniband/vrdma12/ports/1/gid_attrs/types/0";
        assert_eq!(place(file), fact(12, b"/ports/1/gid_attrs/types/0"));
        assert_eq!(place(b"/sys/class/infiniband/vrdmax/ports"), None);
        assert_eq!(place(b"/sys/class/infiniband/mlx5_0/ports/1"), None);
        assert_eq!(place(b""), None);
    }
}
