//! The frames of a node: what it sends as packets, and what it takes in.

use vrdma_verbs::Time;
use vrdma_verbs::packet::{Frames, Link, Reply, Train};
use vrdma_verbs::unit::Request;
use vrdma_wire::{Mac, Packet};

use super::{Node, Region};

impl Node {
    fn link(&self) -> Link {
        Link {
            source: self.hca.identity().mac,
            destination: Mac([2, 0, 0, 0, 0, 0x99]),
            vlan: None,
        }
    }

    /// Returns the only frame of a unit.
    pub(crate) fn request_frame(&self, request: &Request<Region>) -> Vec<u8> {
        only(self.frames(request))
    }

    /// Returns the frames of a unit.
    pub(crate) fn frames(&self, request: &Request<Region>) -> Vec<Vec<u8>> {
        let frames = Frames::of_request(request, &self.link()).unwrap();
        frames.to_vecs(&self.memory).unwrap()
    }

    /// Returns the frames of an answer.
    pub(crate) fn reply_frames(&self, reply: &Reply<Region>) -> Vec<Vec<u8>> {
        let frames = Frames::of_reply(reply, &self.link()).unwrap();
        frames.to_vecs(&self.memory).unwrap()
    }

    /// Returns the only frame of an answer.
    pub(crate) fn reply_frame(&self, reply: &Reply<Region>) -> Vec<u8> {
        only(self.reply_frames(reply))
    }

    /// Takes in a frame as the owner of a wire does: broken ones are dropped.
    pub(crate) fn receive_frame(&mut self, frame: &[u8], now: Time) {
        let Ok(packet) = Packet::parse(frame) else {
            return;
        };
        let Some(arrival) = self.hca.decode(&packet) else {
            return;
        };
        let mut train = self.train.take();
        if let Some(train) = &mut train {
            if train.joins(&arrival) {
                if train.is_complete() {
                    self.take_train(train, now);
                }
            } else {
                self.take_train(train, now);
                if !self.hca.begins_train(&arrival, train) {
                    self.hca.receive(&arrival, &self.memory, now);
                }
            }
        } else {
            self.hca.receive(&arrival, &self.memory, now);
        }
        self.train = train;
        self.drain_outputs();
    }

    /// Ends a train: no more frames come for now.
    pub(crate) fn end_train(&mut self, now: Time) {
        if let Some(mut train) = self.train.take() {
            self.take_train(&mut train, now);
            self.train = Some(train);
            self.drain_outputs();
        }
    }

    fn take_train(&mut self, train: &mut Train<Region>, now: Time) {
        self.trains += u32::from(train.packets() > 1);
        if let Some(arrival) = train.take() {
            self.hca.receive(&arrival, &self.memory, now);
        }
    }
}

fn only(mut frames: Vec<Vec<u8>>) -> Vec<u8> {
    assert_eq!(frames.len(), 1, "it is one packet");
    frames.remove(0)
}
