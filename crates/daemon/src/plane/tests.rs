use super::*;

#[test]
fn a_full_mailbox_says_busy_and_a_dead_thread_says_so() {
    let (outbox, inbox) = mailbox::<u32>().unwrap();
    let accepted = (0..)
        .take_while(|number| outbox.send(*number).is_ok())
        .count();
    assert_eq!(outbox.send(0), Err("the daemon is busy; try again"));
    outbox.send_last(0).unwrap();
    inbox.clear();
    assert_eq!(std::iter::from_fn(|| inbox.take()).count(), accepted + 1);
    drop(inbox);
    assert!(outbox.send(0).unwrap_err().contains("has stopped"));
}
