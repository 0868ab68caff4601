//! Answers of the daemons.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Fault, World, config_space};

type Answer = (StatusCode, String);

/// Returns where an adapter's context is expected.
fn destination(at: usize) -> Value {
    json!({ "address": "192.0.2.2:4793", "ticket": format!("{:032x}", at + 7) })
}

fn refusal(sentence: &str) -> Answer {
    let error = json!({ "error": sentence });
    (StatusCode::CONFLICT, error.to_string())
}

fn nothing() -> Answer {
    (StatusCode::NO_CONTENT, String::new())
}

fn garbled() -> Answer {
    (StatusCode::BAD_GATEWAY, "?".to_owned())
}

fn context() -> Answer {
    (StatusCode::OK, "ctx".to_owned())
}

fn value(value: Value) -> Answer {
    (StatusCode::OK, value.to_string())
}

impl World {
    /// Returns the answer to a request.
    pub(super) fn daemon(
        &mut self,
        side: &str,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Answer {
        if path == "/v1/status" {
            self.log.push(format!("{side} GET status"));
            return value(self.status_of(side));
        }
        let path = path.strip_prefix("/v1/adapters/vm").unwrap();
        let (number, what) = path.split_once('/').unwrap_or((path, "adapter"));
        let at = number.parse::<usize>().unwrap() - 1;
        let of = ["", " of the second"][at];
        let line = format!("{side} {method} {what}{of}");
        self.log.push(line.clone());
        if self.refuses(&line) {
            return refusal("no such luck");
        }
        let has_ended = self.fault == Fault::DaemonEndsInCopy && self.status == "active";
        let is_garbled = matches!(self.fault, Fault::Garbles(what) if what == line);
        if is_garbled || has_ended && side == "destination" {
            return garbled();
        }
        match (what, method) {
            ("context", &Method::DELETE) => {
                self.adapters[at].restored = None;
                nothing()
            }
            ("adapter", _) => value(self.adapter(at, side)),
            ("context", _) => value(self.context(at)),
            ("written", _) => value(self.written()),
            ("memory-digest", _) => value(self.memory_digest(side)),
            _ => self.order(at, what, body),
        }
    }

    fn order(&mut self, at: usize, what: &str, body: &[u8]) -> Answer {
        match what {
            "track" => return value(self.tracked(at)),
            "resend" => return value(self.written()),
            "save" => return context(),
            "freeze" => {
                self.adapters[at].frozen = true;
                return context();
            }
            "expect" => return value(destination(at)),
            "reach" => {
                let to: Value = serde_json::from_slice(body).unwrap();
                assert_eq!(to, destination(at));
            }
            "hand-over" => {
                self.adapters[at].frozen = true;
                return value(json!({ "bytes": 3, "arrived": self.context(at) }));
            }
            "thaw" if self.adapters[at].released => return refusal("it is gone"),
            "thaw" => self.adapters[at].frozen = false,
            "release" => {
                self.adapters[at].released = true;
                if self.fault == Fault::ReleasesSilently {
                    return garbled();
                }
            }
            "restore" => self.adapters[at].restored = serde_json::from_slice(body).unwrap(),
            _ => {}
        }
        nothing()
    }

    fn status_of(&self, side: &str) -> Value {
        let listens = self.fault == Fault::DaemonsListen
            || self.fault == Fault::OneDaemonListens && side == "source";
        json!({
            "version": "1", "pid": 1, "uptime_seconds": 1, "run_dir": "/r", "portgroups": [], "adapters": [], "stats": [],
            "migration": listens.then_some("192.0.2.1:4793"),
        })
    }

    fn written(&self) -> Value {
        let is_much = self.fault == Fault::AdaptersWriteMuch;
        json!({ "bytes": if is_much { 9 << 20 } else { 4096 } })
    }

    fn tracked(&self, at: usize) -> Value {
        let mut config_space = config_space(at);
        if self.fault == Fault::ConfiguresAnew {
            config_space[0x04..0x06].fill(0);
        }
        json!({ "config_space": config_space })
    }

    fn context(&self, at: usize) -> Value {
        let config_space = config_space(at);
        let restored =
            self.adapters[at].restored.is_some() && self.fault != Fault::ResetsAfterRestore;
        json!({ "config_space": config_space, "records": 4, "pages": 5, "restored": restored })
    }

    fn memory_digest(&self, side: &str) -> Value {
        let is_other = side == "destination" && self.fault == Fault::LosesMemory;
        let range = json!({ "address": 0, "bytes": 4096, "digests": [u32::from(is_other)] });
        json!({ "ranges": [range] })
    }

    fn adapter(&self, at: usize, side: &str) -> Value {
        let is_there = side == "destination";
        let mac = if is_there && self.fault == Fault::OtherMac {
            "02"
        } else {
            "01"
        };
        let away = match self.fault {
            Fault::ClaimedThere => false,
            Fault::AwayHere => true,
            _ if self.alone => false,
            _ => is_there != self.adapters[at].released,
        };
        let kind = match self.fault {
            Fault::OfProcesses if is_there => "process",
            _ => "vm",
        };
        json!({
            "name": format!("vm{}", at + 1), "portgroup": "blue", "mac": format!("52:54:00:00:00:{mac}"), "doorbells": "mapped",
            "origin": "config", "kind": kind, "away": away,
        })
    }
}
