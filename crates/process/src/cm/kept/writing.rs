//! Writing records when objects come, change and go.

use std::os::fd::{AsFd, AsRawFd};

use prost::Message;
use vrdma_cm::Cm;
use vrdma_keep::Records;
use vrdma_provider::daemon::Answer;
use vrdma_switch::PortId;
use zerocopy::IntoBytes;

use super::super::adapter::{AdapterSpec, Connection};
use super::super::adapters::Adapters;
use super::super::changes::Item;
use super::super::client::{Client, ClientId};
use super::super::owners::{Owner, Owners};
use super::super::search::Searches;
use super::super::service::Service;
use super::record;
use super::recorder::{Key, Kind, Recorder};

impl Service {
    /// Starts to record what a later service needs to go on for this one. To be called before there are adapters.
    pub fn record_in(&mut self, records: Records) {
        self.recorder = Some(Recorder::new(records));
        self.adapters.track();
    }

    /// Whether records are written for a later service.
    pub(in super::super) fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// Writes the records of everything that has changed. Changes are not told before.
    pub(in super::super) fn record(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let mut losers = record_adapters(recorder, &mut self.adapters, &self.owners);
        for id in &self.touched {
            let Some(client) = self.clients.get_mut(id) else {
                recorder.forget_client(id.0);
                continue;
            };
            let about = About {
                id: *id,
                adapters: &self.adapters,
                searches: &self.searches,
            };
            let changes = client.changes.take();
            let written = changes
                .iter()
                .all(|item| about.write(recorder, client, *item));
            if !written {
                losers.push(*id);
            }
        }
        for id in losers {
            if let Some(client) = self.clients.get_mut(&id) {
                give_up(recorder, id, client);
            }
        }
        recorder.commit();
    }

    /// Removes the records of an adapter that is gone.
    pub(in super::super) fn forget_records_of(&mut self, port: PortId) {
        if let Some(recorder) = &mut self.recorder {
            recorder.forget_adapter(port.0);
        }
    }

    /// Removes the records of datagrams that were given out: all of them have left the daemon, or have arrived.
    pub fn delivered(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let mut any = false;
        while let Some((port, sent)) = self.adapters.next_sent() {
            let all = Key::all(Kind::Datagram, port.0);
            let last = Key::new(Kind::Datagram, port.0, sent);
            for key in recorder.keys(*all.start()..=last) {
                if key < last {
                    recorder.forget(key);
                    any = true;
                }
            }
        }
        if any {
            recorder.commit();
        }
    }
}

/// Ends the recording of a client. Nobody can go on for a client with a record missing; the program had better learn
/// that its device is gone.
fn give_up(recorder: &mut Recorder, id: ClientId, client: &mut Client) {
    tracing::warn!(
        uid = client.caller.uid,
        "there is no room to record a program that uses rdma_cm: it will not survive the end of the worker"
    );
    client.changes.end();
    recorder.forget_client(id.0);
}

/// Records the adapters' changes. Returns the clients whose records found no room.
fn record_adapters(
    recorder: &mut Recorder,
    adapters: &mut Adapters,
    owners: &Owners,
) -> Vec<ClientId> {
    let mut losers = Vec::new();
    while let Some(adapter) = adapters.next_unrecorded() {
        let port = adapter.spec.port;
        let Some(cm) = &mut adapter.cm else {
            continue;
        };
        for name in cm.take_changed() {
            let key = Key::new(Kind::Connection, port.0, name.0.into());
            let Some(saved) = cm.save(name) else {
                recorder.forget(key);
                continue;
            };
            let record = record::Connection {
                adapter: adapter.spec.name.to_string(),
                saved,
            };
            if !recorder.put(key, &record) {
                let owner = owners.connections.get(&Connection { port, name });
                losers.extend(owner.map(|owner| owner.client));
            }
        }
        record_datagrams(recorder, &adapter.spec, cm);
    }
    losers
}

/// Records the datagrams. One that finds no room for its record is repeated as on a wire if it gets lost.
fn record_datagrams(recorder: &mut Recorder, adapter: &AdapterSpec, cm: &Cm) {
    for (number, outgoing) in cm.unsent() {
        let key = Key::new(Kind::Datagram, adapter.port.0, number);
        if recorder.has(key) {
            continue;
        }
        let bytes = outgoing.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != 0);
        let record = record::Datagram {
            adapter: adapter.name.to_string(),
            number,
            local: outgoing.ends.local.0.to_vec(),
            remote: outgoing.ends.remote.0.to_vec(),
            bytes: bytes[..end.map_or(0, |last| last + 1)].to_vec(),
        };
        recorder.put(key, &record);
    }
}

/// The client whose objects are written, and the tables with the rest of their state.
struct About<'a> {
    id: ClientId,
    adapters: &'a Adapters,
    searches: &'a Searches,
}

impl About<'_> {
    /// Writes the record of an object; `false` if there is no room.
    fn write(&self, recorder: &mut Recorder, client: &Client, item: Item) -> bool {
        match item {
            Item::Itself => recorder.put(self.key(Kind::Client, 0), &self.client(client)),
            Item::Answer => {
                let answer = self.answer(client);
                self.set(recorder, self.key(Kind::Answer, 0), answer)
            }
            Item::Channel(number) => {
                let channel = client.channels.get(&number);
                let record = channel.map(|channel| record::Channel {
                    client: self.id.0,
                    channel: number,
                    pipe: channel.descriptor().as_raw_fd(),
                });
                self.set(recorder, self.key(Kind::Channel, number), record)
            }
            Item::Event { channel, number } => {
                let event = client.channels.get(&channel);
                let record = event.and_then(|it| it.event(number)).map(|event| {
                    let event = event.as_bytes().to_vec();
                    record::Event {
                        client: self.id.0,
                        channel,
                        number,
                        event,
                    }
                });
                self.set(recorder, self.key(Kind::Event, number), record)
            }
            Item::Group(group) => {
                let joined = client.groups.get(&group);
                let record = joined.map(|joined| record::Group {
                    client: self.id.0,
                    group,
                    id: joined.id,
                });
                self.set(recorder, self.key(Kind::Group, group), record)
            }
            Item::Identifier(id) => self.write_identifier(recorder, client, id),
        }
    }

    fn key(&self, kind: Kind, first: u64) -> Key {
        Key::new(kind, self.id.0, first)
    }

    /// Writes a record, or removes it if the object is gone.
    fn set(&self, recorder: &mut Recorder, key: Key, record: Option<impl Message>) -> bool {
        match record {
            Some(record) => recorder.put(key, &record),
            None => {
                recorder.forget(key);
                true
            }
        }
    }

    fn client(&self, client: &Client) -> record::Client {
        record::Client {
            client: self.id.0,
            socket: client.socket.as_fd().as_raw_fd(),
            only: client.caller.only.map(|only| only.as_str().to_owned()),
            wants: client.wants.as_str().to_owned(),
            last: client.last_number(),
        }
    }

    fn answer(&self, client: &Client) -> Option<record::Answer> {
        let answered = client.answered.as_ref()?;
        let good = answered.answer.as_ref().ok();
        let refused = answered.answer.as_ref().err();
        let fds = good.map_or(&[][..], Answer::fds);
        Some(record::Answer {
            client: self.id.0,
            code: answered.header.code.into(),
            number: answered.header.number.into(),
            errno: refused.map_or(0, |errno| errno.raw_os_error()),
            body: good.map_or(Vec::new(), |answer| answer.body().to_vec()),
            descriptors: fds.iter().map(AsRawFd::as_raw_fd).collect(),
        })
    }

    fn write_identifier(&self, recorder: &mut Recorder, client: &Client, id: u64) -> bool {
        let key = self.key(Kind::Identifier, id);
        let Some(identifier) = client.identifiers.get(&id) else {
            recorder.forget(key);
            recorder.forget_all(Key::parts(Kind::Offer, self.id.0, id));
            return true;
        };
        let owner = Owner {
            client: self.id,
            id,
        };
        let record = identifier.save(owner, self.adapters, self.searches.get(owner));
        let mut written = recorder.put(key, &record);
        for port in recorder.keys(Key::parts(Kind::Offer, self.id.0, id)) {
            if !identifier.offers.contains_key(&PortId(port.second as u32)) {
                recorder.forget(port);
            }
        }
        for (port, offered) in &identifier.offers {
            let key = Key {
                second: port.0.into(),
                ..self.key(Kind::Offer, id)
            };
            let record = record::Offer {
                client: self.id.0,
                id,
                adapter: self.adapters.name_of(*port),
                qpn: offered.qpn.get(),
                qkey: offered.qkey.0,
            };
            written &= recorder.has(key) || recorder.put(key, &record);
        }
        written
    }
}
