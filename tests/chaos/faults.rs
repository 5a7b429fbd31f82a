//! Which faults happen when: a pure function of the seed and the length. How they are done is in `lanes`.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// What a fault hits. Faults of one lane follow each other; those of different lanes overlap as they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Crier,
    /// etcd and the API server.
    Cluster,
    Kafka,
    Nats,
    /// What the HTTP endpoint answers.
    Receiver,
    PathToApiServer,
    PathToKafka,
    PathToNats,
    PathToReceiver,
}

/// What happens. Most faults last for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// kill -9, and a start.
    Kill,
    /// kill -9, and a start when enough has changed meanwhile, and the history of it is lost: what was under way has to
    /// be found by comparison.
    KillBlind,
    /// SIGSTOP, and SIGCONT.
    Stop,
    /// SIGTERM, which has to end well, and a start.
    Terminate,
    /// SIGSTOP of etcd, and SIGCONT.
    StopEtcd,
    /// etcd forgets its history; the API server's own is still there.
    Compact,
    /// etcd is compacted, then the API server is killed: no watch can be resumed.
    LoseHistory,
    /// The definition of a kind is changed in its description only, which ends every watch of it.
    EditKind,
    /// etcd's data is copied, and put back later.
    Rewind,
    /// The endpoint takes nothing.
    Refuse503,
    /// The endpoint takes nothing and asks for patience.
    Refuse429,
    /// The endpoint keeps what it is sent, and answers that it has failed.
    KeepAndFail,
    /// The endpoint keeps what it is sent, and does not answer.
    Hang,
    /// Connections are ended; new ones work.
    Cut,
    /// Nothing is carried, then everything.
    Stall,
    /// Connections are half open: one end is gone, the other is not told. New ones work.
    HalfOpen,
    /// Each connection ends after a few thousand bytes, in the middle of a list or a request.
    Tear,
    /// Connections are ended and new ones turned away, as of a host whose process is dead.
    Close,
}

/// One fault of a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) lane: Lane,
    pub(crate) fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(formatter, "{at:8.3} {:?} {:?} for {lasts:.3} s", self.lane, self.fault)
    }
}

const PATH: &[Fault] = &[Fault::Cut, Fault::Tear, Fault::Stall, Fault::HalfOpen, Fault::Close];

/// Each lane, its faults, and how many milliseconds lie between them: a server takes seconds to start.
const LANES: &[(Lane, &[Fault], u64)] = &[
    (
        Lane::Crier,
        &[Fault::Kill, Fault::Kill, Fault::Kill, Fault::KillBlind, Fault::KillBlind, Fault::Stop, Fault::Terminate],
        5_000,
    ),
    (
        Lane::Cluster,
        &[
            Fault::Kill,
            Fault::Stop,
            Fault::StopEtcd,
            Fault::Compact,
            Fault::LoseHistory,
            Fault::EditKind,
            Fault::EditKind,
        ],
        6_000,
    ),
    (Lane::Kafka, &[Fault::Kill, Fault::Stop, Fault::Stop], 12_000),
    (Lane::Nats, &[Fault::Kill, Fault::Kill, Fault::Stop], 9_000),
    (Lane::Receiver, &[Fault::Refuse503, Fault::Refuse429, Fault::KeepAndFail, Fault::Hang], 8_000),
    (Lane::PathToApiServer, PATH, 9_000),
    (Lane::PathToKafka, PATH, 14_000),
    (Lane::PathToNats, PATH, 12_000),
    (Lane::PathToReceiver, PATH, 10_000),
];

/// Runs as long as this have faults that outlast the deadlines of requests and watches.
const LONG_RUN: Duration = Duration::from_secs(300);

/// The faults of a run, in the order in which they begin.
pub(crate) fn schedule(seed: u64, length: Duration, rewind: bool) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut planned = Vec::new();
    for (lane, faults, pause) in LANES {
        let mut bag = Vec::new();
        let mut at = Duration::from_millis(random.random_range(200..*pause));
        while at < length {
            // From a bag, so that every fault has its turn before one comes again.
            if bag.is_empty() {
                bag = faults.to_vec();
                bag.shuffle(&mut random);
                if rewind && *lane == Lane::Cluster {
                    bag.push(Fault::Rewind);
                }
            }
            let Some(fault) = bag.pop() else { break };
            let mut lasts = Duration::from_millis(random.random_range(milliseconds(*lane, fault)));
            if length >= LONG_RUN && random.random_range(0..8) == 0 {
                lasts *= 6;
            }
            planned.push(Planned { at, lasts, lane: *lane, fault });
            at += lasts + Duration::from_millis(random.random_range(pause / 5..pause * 2));
        }
    }
    planned.sort_by_key(|planned| planned.at);
    planned
}

/// How long a fault lasts.
fn milliseconds(lane: Lane, fault: Fault) -> std::ops::Range<u64> {
    match (lane, fault) {
        (Lane::Crier, Fault::Kill | Fault::Terminate) => 1..1_500,
        (Lane::Crier, Fault::KillBlind) => 1_000..8_000,
        (Lane::Crier, _) => 200..4_000,
        (_, Fault::Kill | Fault::LoseHistory) => 1..4_000,
        (_, Fault::Compact | Fault::EditKind | Fault::Cut) => 1..2,
        (_, Fault::Refuse429 | Fault::Refuse503 | Fault::KeepAndFail) => 500..6_000,
        (_, Fault::Rewind) => 2_000..10_000,
        _ => 500..11_000,
    }
}
