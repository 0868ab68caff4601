use super::Qp;

/// An idle QP owns nothing outside its struct, and thousands of them have to be cheap.
#[test]
fn an_idle_queue_pair_is_small() {
    type Region = [usize; 2];
    assert!(size_of::<Qp<Region>>() < 1024);
}
