use super::*;

#[test]
fn a_full_mailbox_says_busy_and_a_dead_thread_says_so() {
    let (outbox, inbox) = mailbox::<u32>().unwrap();
    let accepted = (0..)
        .take_while(|number| outbox.send(*number).is_ok())
        .count();
    assert_eq!(outbox.send(0), Err("the daemon is busy; try again"));
    inbox.clear();
    assert_eq!(std::iter::from_fn(|| inbox.take()).count(), accepted);
    drop(inbox);
    assert!(outbox.send(0).unwrap_err().contains("has stopped"));
}

#[test]
fn a_dropped_reply_is_an_error_not_a_hang() {
    let (outbox, inbox) = mailbox::<Reply<u32>>().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let asked = runtime.block_on(async {
        let (answer, ()) = tokio::join!(ask(&outbox, |reply| reply), async { drop(inbox.take()) });
        answer
    });
    assert!(asked.unwrap_err().contains("dropped the request"));
}
