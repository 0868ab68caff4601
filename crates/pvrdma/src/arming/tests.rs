//! Scripts of doorbells, publications and consumption, with the verdicts that the device must give.

use core::time::Duration;

use vrdma_verbs::Time;

use super::{
    ARM_PATIENCE, Arming, CqDoorbell, CqState, PATIENCE, STALLED_PATIENCE, Touches, Verdict,
};

const US: u64 = 1000;

/// One CQ, its ring and its page, with a clock that the script sets.
struct Script {
    arming: Arming,
    touches: Touches,
    producer: u32,
    consumer: u32,
    now: Time,
    mapped: bool,
}

impl Script {
    fn mapped() -> Self {
        Self {
            arming: Arming::new(),
            touches: Touches::default(),
            producer: 0,
            consumer: 0,
            now: Time(0),
            mapped: true,
        }
    }

    fn trapped() -> Self {
        Self {
            mapped: false,
            ..Self::mapped()
        }
    }

    fn state(&self) -> CqState {
        CqState {
            consumer: self.consumer,
            empty: self.consumer == self.producer,
            touches: self.touches,
        }
    }

    fn at(&mut self, us: u64) -> &mut Self {
        self.now = Time(us * US);
        self
    }

    fn pass(&mut self, us: u64) -> &mut Self {
        self.now = self.now + Duration::from_micros(us);
        self
    }

    fn ring(&mut self, word: CqDoorbell) -> Verdict {
        if self.mapped {
            self.touches.touch();
        }
        self.arming.rung(word, self.state(), self.now)
    }

    /// Counts a word that names another CQ of the page.
    fn overwritten(&mut self) -> &mut Self {
        self.touches.touch();
        self
    }

    fn publish(&mut self) -> Verdict {
        self.publish_as(false)
    }

    fn publish_as(&mut self, urgent: bool) -> Verdict {
        let before = self.state();
        self.producer += 1;
        self.arming.published(before, urgent, self.now)
    }

    fn consume(&mut self) -> &mut Self {
        self.consumer = self.producer;
        self
    }

    fn poll(&mut self) -> Verdict {
        self.arming.poll(self.state(), self.now)
    }
}

fn wait(us: u64) -> Verdict {
    Verdict::Wait(Time(us * US))
}

#[test]
fn an_arm_that_was_seen_notifies_once() {
    let mut cq = Script::mapped();
    assert_eq!(cq.ring(CqDoorbell::Arm), Verdict::Idle);
    assert_eq!(cq.publish(), Verdict::Notify);
    assert_eq!(cq.publish(), Verdict::Unheard);
    assert_eq!(cq.publish(), Verdict::Idle);
}

#[test]
fn without_any_word_nothing_is_notified() {
    let mut cq = Script::mapped();
    assert_eq!(cq.publish(), Verdict::Unheard);
    assert_eq!(cq.at(1_000_000).poll(), Verdict::Idle);
}

#[test]
fn an_overwritten_arm_notifies_after_a_moment() {
    let mut cq = Script::mapped();
    cq.overwritten();
    assert_eq!(cq.publish(), wait(32));
    assert_eq!(cq.at(31).poll(), wait(32));
    assert_eq!(cq.at(32).poll(), Verdict::Notify);
    assert_eq!(cq.at(9999).poll(), Verdict::Idle);
}

#[test]
fn a_word_that_becomes_visible_late_counts_for_older_completions() {
    let mut cq = Script::mapped();
    assert_eq!(cq.publish(), Verdict::Unheard);
    cq.at(10).overwritten();
    assert_eq!(cq.arming.page_touched(cq.state(), cq.now), wait(20_010));
    assert_eq!(cq.at(20_010).poll(), Verdict::Notify);
}

#[test]
fn a_consumed_completion_leaves_the_arming_in_force() {
    let mut cq = Script::mapped();
    cq.overwritten();
    assert_eq!(cq.publish(), wait(32));
    assert_eq!(cq.consume().at(32).poll(), Verdict::Idle);
    assert_eq!(cq.publish(), wait(32 + 64));
    assert_eq!(cq.at(96).poll(), Verdict::Notify);
}

#[test]
fn a_consumer_that_moves_is_given_another_moment() {
    let mut cq = Script::mapped();
    cq.overwritten();
    assert_eq!(cq.publish(), wait(32));
    assert_eq!(cq.publish(), wait(32));
    cq.consumer = 1;
    assert_eq!(cq.at(32).poll(), wait(64));
    assert_eq!(cq.at(64).poll(), Verdict::Notify);
}

#[test]
fn arming_over_unconsumed_completions_waits_for_the_poll_that_follows() {
    let mut cq = Script::mapped();
    assert_eq!(cq.publish(), Verdict::Unheard);
    assert_eq!(cq.ring(CqDoorbell::Arm), wait(20_000));
    assert_eq!(cq.consume().at(20_000).poll(), Verdict::Idle);
    assert_eq!(cq.publish(), Verdict::Notify);
}

#[test]
fn an_arm_gives_its_thread_time_to_look() {
    let mut cq = Script::mapped();
    for _ in 0..10 {
        cq.overwritten();
        let _ = cq.publish();
        let _ = cq.consume().pass(5000).poll();
    }
    let start = cq.now;
    cq.overwritten();
    assert_eq!(cq.publish(), Verdict::Wait(start + PATIENCE * 32));
    assert_eq!(
        cq.ring(CqDoorbell::Arm),
        Verdict::Wait(start + ARM_PATIENCE)
    );
}

#[test]
fn a_completion_after_an_arm_is_notified_although_an_older_one_waits() {
    let mut cq = Script::mapped();
    assert_eq!(cq.publish(), Verdict::Unheard);
    assert_eq!(cq.ring(CqDoorbell::Arm), wait(20_000));
    assert_eq!(cq.at(5).publish(), Verdict::Notify);
}

#[test]
fn solicited_arming_passes_over_ordinary_completions() {
    let mut cq = Script::trapped();
    assert_eq!(cq.ring(CqDoorbell::ArmSolicited), Verdict::Idle);
    assert_eq!(cq.publish(), Verdict::Unheard);
    assert_eq!(cq.consume().publish_as(true), Verdict::Notify);
}

/// The word in the page may hide an ARM, but that is unlikely.
#[test]
fn mapped_solicited_arming_is_patient_with_ordinary_completions() {
    let mut cq = Script::mapped();
    assert_eq!(cq.ring(CqDoorbell::ArmSolicited), Verdict::Idle);
    assert_eq!(cq.publish(), wait(8000));
    assert_eq!(cq.at(100).publish_as(true), Verdict::Notify);
}

#[test]
fn solicited_arming_does_not_weaken_any() {
    let mut cq = Script::trapped();
    let _ = cq.ring(CqDoorbell::Arm);
    let _ = cq.ring(CqDoorbell::ArmSolicited);
    assert_eq!(cq.publish(), Verdict::Notify);
}

#[test]
fn trapped_polls_never_arm() {
    let mut cq = Script::trapped();
    for _ in 0..100 {
        assert_eq!(cq.ring(CqDoorbell::Poll), Verdict::Idle);
        assert_ne!(cq.publish(), Verdict::Notify);
        assert_eq!(cq.arming.deadline(), None);
        cq.consume().pass(10);
    }
}

/// A trapped doorbell write may be handled after the guest has polled for the last time.
#[test]
fn trapped_arm_over_unconsumed_completions_notifies_in_the_end() {
    let mut cq = Script::trapped();
    let _ = cq.publish();
    assert_eq!(cq.ring(CqDoorbell::Arm), wait(20_000));
    assert_eq!(cq.at(20_000).poll(), Verdict::Notify);
}

/// One round of a thread that sleeps, whose ARM is always overwritten by its POLL.
fn sleep_once(cq: &mut Script) -> Verdict {
    let _ = cq.ring(CqDoorbell::Poll);
    let verdict = cq.pass(500).publish();
    if let Verdict::Wait(deadline) = verdict {
        cq.now = deadline;
        assert_eq!(cq.poll(), Verdict::Notify);
    }
    cq.pass(50).consume();
    verdict
}

#[test]
fn a_sleeper_is_learnt_in_three_turns_and_probed_now_and_then() {
    let mut cq = Script::mapped();
    let immediate = (0..323)
        .filter(|_| sleep_once(&mut cq) == Verdict::Notify)
        .count();
    assert_eq!(immediate, 310, "3 to learn, a probe in 32 of the other 320");
}

/// One round of a thread that polls; the completion is consumed after `late` microseconds.
fn poll_once(cq: &mut Script, late: u64) -> u32 {
    for _ in 0..5 {
        let _ = cq.pass(1).ring(CqDoorbell::Poll);
    }
    let mut notified = u32::from(cq.publish() == Verdict::Notify);
    cq.pass(late);
    notified += u32::from(cq.poll() == Verdict::Notify);
    cq.consume();
    let _ = cq.poll();
    notified
}

#[test]
fn a_busy_poller_is_left_alone() {
    let mut cq = Script::mapped();
    let notified: u32 = (0..10_000).map(|_| poll_once(&mut cq, 2)).sum();
    assert_eq!(notified, 0);
}

/// The poller's vCPU loses its core for 4 ms at every tenth completion.
#[test]
fn a_poller_that_is_descheduled_costs_one_notification_each_time() {
    let mut cq = Script::mapped();
    let notified: u32 = (0..1000)
        .map(|turn| poll_once(&mut cq, if turn % 10 == 9 { 4000 } else { 2 }))
        .sum();
    assert_eq!(notified, 100);
}

#[test]
fn a_sleeper_that_begins_to_poll_is_noticed_by_its_polls() {
    let mut cq = Script::mapped();
    for _ in 0..10 {
        let _ = sleep_once(&mut cq);
    }
    let notified: u32 = (0..1000).map(|_| poll_once(&mut cq, 2)).sum();
    assert_eq!(notified, 0);
}

/// A send CQ that is drained every 64 completions while another CQ of the page is polled.
#[test]
fn a_queue_drained_now_and_then_gets_few_notifications() {
    let mut cq = Script::mapped();
    let mut notified = 0;
    for turn in 0..6400 {
        cq.pass(10).overwritten();
        notified += u32::from(cq.publish() == Verdict::Notify);
        notified += u32::from(cq.poll() == Verdict::Notify);
        if turn % 64 == 63 {
            cq.consume();
        }
    }
    assert!(
        notified <= 100,
        "{notified}: more than one each time it is drained"
    );
}

#[test]
fn a_ring_left_alone_after_a_notification_is_watched_for_long() {
    let mut cq = Script::mapped();
    let _ = cq.ring(CqDoorbell::Arm);
    assert_eq!(cq.publish(), Verdict::Notify);
    cq.overwritten();
    assert_eq!(cq.publish(), Verdict::Wait(Time(0) + STALLED_PATIENCE));
    assert_eq!(cq.at(8000).poll(), Verdict::Notify);
}

#[test]
fn one_state_is_small() {
    assert!(size_of::<Arming>() <= 72, "{}", size_of::<Arming>());
}
