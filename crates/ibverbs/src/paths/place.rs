//! Which paths are ours.

/// What such a path stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Null,
    Text(&'static str),
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= 3 && text.iter().all(u8::is_ascii_digit)
}

/// One comparison for nearly every path of a program.
pub(super) fn place(path: &[u8]) -> Option<Place> {
    if let Some(number) = path.strip_prefix(b"/dev/infiniband/uverbs") {
        return is_number(number).then_some(Place::Null);
    }
    let rest = path.strip_prefix(b"/sys/class/infiniband/vrdma")?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    let (number, rest) = rest.split_at(slash);
    let index = rest.strip_prefix(b"/ports/1/gid_attrs/types/")?;
    (is_number(number) && is_number(index)).then_some(Place::Text("RoCE v2\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_paths_are_ours() {
        assert_eq!(place(b"/dev/infiniband/uverbs0"), Some(Place::Null));
        assert_eq!(place(b"/dev/infiniband/uverbs"), None);
        assert_eq!(place(b"/dev/infiniband/uverbs0/x"), None);
        assert_eq!(place(b"/dev/infiniband/rdma_cm"), None);
        let fact = b"/sys/class/infiniband/vrdma1/ports/1/gid_attrs/types/0";
        assert_eq!(place(fact), Some(Place::Text("RoCE v2\n")));
        assert_eq!(
            place(b"/sys/class/infiniband/vrdma1/ports/1/gid_attrs/types/x"),
            None
        );
        assert_eq!(
            place(b"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0"),
            None
        );
        assert_eq!(place(b""), None);
    }
}
