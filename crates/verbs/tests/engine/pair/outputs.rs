//! The outputs of an engine, sorted.

use vrdma_verbs::work::Output;

use super::node::Node;

impl Node {
    pub(crate) fn drain_outputs(&mut self) {
        while let Some(output) = self.hca.poll_output() {
            match output {
                Output::SendDone {
                    qp,
                    count,
                    cq,
                    completion,
                } => {
                    assert!(qp == self.qp || self.more.contains(&qp));
                    assert_eq!(cq, self.send_cq);
                    self.sent.extend((1..count).map(|_| None));
                    self.sent.push(completion);
                }
                Output::RecvDone { cq, completion } => {
                    assert_eq!(cq, self.recv_cq);
                    let enclosed = self.hca.enclosed(&completion);
                    let enclosed = enclosed.map(|(sges, bytes)| (sges.to_vec(), bytes.to_vec()));
                    self.enclosed.extend(enclosed);
                    self.received.push(completion);
                }
                Output::Event(event) => self.events.push(event),
            }
        }
        self.hca.forget_enclosed();
    }
}
