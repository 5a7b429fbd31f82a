//! Records as bytes: a version byte, the fields, a checksum. Plain and compact, so that no library's layout is in it.

use std::collections::BTreeSet;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::model::{
    Cause, Doubt, Epoch, FeedRecord, KeyRecord, Origin, Over, Owed, OwedState, ResourceVersion, RouteRecord, Sequence,
    Served, Told, Uid,
};

const VERSION: u8 = 2;
const CHECKSUM: usize = 4;

/// Bytes that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The checksum does not fit: bytes were altered or cut.
    #[error("its checksum does not fit")]
    Checksum,
    /// A record version that is not known.
    #[error("record version {0} is not known")]
    Version(u8),
    /// The fields do not fit the layout.
    #[error("its fields do not fit the layout")]
    Layout,
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    [a, b, c, d]
}

struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        Self(vec![VERSION])
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// LEB128: versions and counts are small far more often than not.
    fn number(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u128);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn version(&mut self, version: Option<ResourceVersion>) {
        // Zero is no resourceVersion.
        self.number(version.map_or(0, ResourceVersion::get));
    }

    fn sequence(&mut self, sequence: Option<Sequence>) {
        self.version(sequence.map(Sequence::resource_version));
        if let Some(sequence) = sequence {
            self.number(sequence.epoch().get().into());
        }
    }

    /// A UUID as its bytes; any other uid as its text, which is never this short: its length comes first.
    fn uid(&mut self, uid: &Uid) {
        match uid.as_uuid() {
            Some(bytes) => {
                self.byte(0);
                self.0.extend_from_slice(bytes);
            }
            None => {
                self.byte(1);
                self.text(&uid.to_string());
            }
        }
    }

    fn flag(&mut self, flag: bool) {
        self.byte(flag.into());
    }

    fn owed(&mut self, owed: Option<&Owed>) {
        let Some(owed) = owed else { return self.byte(0) };
        self.byte(1 + owed.state as u8);
        self.uid(&owed.uid);
        self.sequence(Some(owed.sequence));
        self.byte(u8::from(owed.inferred) | u8::from(owed.existed) << 1);
        self.byte(owed.origin as u8);
        match owed.cause {
            Cause::Change => self.byte(0),
            Cause::Selection(revision) => {
                self.byte(1);
                self.number(revision.into());
            }
            Cause::Resync(number) => {
                self.byte(2);
                self.number(number.into());
            }
        }
        self.number(owed.coalesced.into());
    }

    fn finish(mut self) -> Vec<u8> {
        let checksum = checksum(&self.0);
        self.0.extend_from_slice(&checksum);
        self.0
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let body = bytes.len().checked_sub(CHECKSUM).ok_or(DecodeError::Checksum)?;
        let (body, found) = bytes.split_at(body);
        if checksum(body) != found {
            return Err(DecodeError::Checksum);
        }
        let mut reader = Self(body);
        match reader.byte()? {
            VERSION => Ok(reader),
            other => Err(DecodeError::Version(other)),
        }
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError::Layout)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u128, DecodeError> {
        let mut number = 0;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::Layout)
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Layout)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Layout)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| DecodeError::Layout)
    }

    fn version(&mut self) -> Result<Option<ResourceVersion>, DecodeError> {
        self.number().map(ResourceVersion::new)
    }

    fn sequence(&mut self) -> Result<Option<Sequence>, DecodeError> {
        let Some(version) = self.version()? else { return Ok(None) };
        let epoch = self.small(Epoch::LARGEST.get())?;
        Ok(Some(Sequence::new(Epoch::new(epoch), version)))
    }

    fn uid(&mut self) -> Result<Uid, DecodeError> {
        match self.byte()? {
            0 => self.array().map(Uid::from_uuid),
            1 => {
                let uid = Uid::new(self.text()?);
                // Each uid has one form.
                if uid.as_uuid().is_none() { Ok(uid) } else { Err(DecodeError::Layout) }
            }
            _ => Err(DecodeError::Layout),
        }
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Layout)?;
        self.0 = rest;
        Ok(*array)
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Layout),
        }
    }

    fn small(&mut self, at_most: u64) -> Result<u64, DecodeError> {
        let number = self.number()?.try_into().map_err(|_| DecodeError::Layout)?;
        if number <= at_most { Ok(number) } else { Err(DecodeError::Layout) }
    }

    fn count(&mut self) -> Result<u32, DecodeError> {
        Ok(self.small(u32::MAX.into())? as u32)
    }

    fn owed(&mut self) -> Result<Option<Owed>, DecodeError> {
        let states = [OwedState::Present, OwedState::Gone, OwedState::Left, OwedState::Missing];
        let state = match self.byte()? {
            0 => return Ok(None),
            state => *states.get(usize::from(state) - 1).ok_or(DecodeError::Layout)?,
        };
        let uid = self.uid()?;
        let sequence = self.sequence()?.ok_or(DecodeError::Layout)?;
        let flags = self.byte()?;
        if flags > 3 {
            return Err(DecodeError::Layout);
        }
        let (inferred, existed) = (flags & 1 != 0, flags & 2 != 0);
        let origins = [Origin::Watch, Origin::Relist, Origin::Snapshot, Origin::Resync, Origin::Audit];
        let origin = *origins.get(usize::from(self.byte()?)).ok_or(DecodeError::Layout)?;
        let cause = match self.byte()? {
            0 => Cause::Change,
            1 => Cause::Selection(self.count()?),
            2 => Cause::Resync(self.count()?),
            _ => return Err(DecodeError::Layout),
        };
        let coalesced = self.count()?;
        Ok(Some(Owed { uid, sequence, state, inferred, existed, origin, cause, coalesced }))
    }

    fn end(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Layout) }
    }
}

/// A key's record as bytes.
pub(super) fn encode_key_record(record: &KeyRecord) -> Vec<u8> {
    let mut writer = Writer::new();
    match &record.told {
        None => writer.byte(0),
        Some(told) => {
            writer.byte(if told.deleting { 2 } else { 1 });
            writer.uid(&told.uid);
            writer.sequence(Some(told.sequence));
            writer.0.extend_from_slice(&told.fingerprint.to_le_bytes());
            writer.byte(told.recipe);
        }
    }
    writer.owed(record.predecessor.as_ref());
    writer.owed(record.owed.as_ref());
    writer.number(record.doubts.len() as u128);
    for doubt in &record.doubts {
        writer.uid(&doubt.uid);
        writer.sequence(Some(doubt.sequence));
        writer.flag(doubt.gone);
    }
    writer.sequence(record.fetched);
    writer.flag(record.over.is_some());
    if let Some(over) = &record.over {
        writer.uid(&over.uid);
        writer.sequence(Some(over.until));
    }
    writer.finish()
}

/// A key's record from bytes.
pub(super) fn decode_key_record(bytes: &[u8]) -> Result<KeyRecord, DecodeError> {
    let mut reader = Reader::new(bytes)?;
    let told = match reader.byte()? {
        0 => None,
        kind @ (1 | 2) => {
            let uid = reader.uid()?;
            let sequence = reader.sequence()?.ok_or(DecodeError::Layout)?;
            let fingerprint = u64::from_le_bytes(reader.array()?);
            let recipe = reader.byte()?;
            Some(Told { uid, sequence, fingerprint, recipe, deleting: kind == 2 })
        }
        _ => return Err(DecodeError::Layout),
    };
    let (predecessor, owed) = (reader.owed()?, reader.owed()?);
    let mut doubts = Vec::new();
    for _ in 0..reader.number()? {
        let uid = reader.uid()?;
        let sequence = reader.sequence()?.ok_or(DecodeError::Layout)?;
        doubts.push(Doubt { uid, sequence, gone: reader.flag()? });
    }
    let fetched = reader.sequence()?;
    let over = if reader.flag()? {
        Some(Over { uid: reader.uid()?, until: reader.sequence()?.ok_or(DecodeError::Layout)? })
    } else {
        None
    };
    reader.end()?;
    Ok(KeyRecord { told, predecessor, owed, doubts, fetched, over })
}

/// A feed's record, and the names of the routes that have followed up to its position, as bytes.
pub(super) fn encode_feed_record<'a>(record: &FeedRecord, followed: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.number(record.epoch.get().into());
    writer.number(record.rewinds.into());
    writer.version(record.position);
    writer.version(record.newest);
    writer.flag(record.served.is_some());
    if let Some(served) = &record.served {
        writer.text(&served.version);
        writer.text(&served.kind);
        writer.flag(served.defined);
    }
    for route in followed {
        writer.text(route);
    }
    writer.finish()
}

/// The same from bytes.
pub(super) fn decode_feed_record(bytes: &[u8]) -> Result<(FeedRecord, BTreeSet<String>), DecodeError> {
    let mut reader = Reader::new(bytes)?;
    let epoch = Epoch::new(reader.small(Epoch::LARGEST.get())?);
    let rewinds = reader.count()?;
    let (position, newest) = (reader.version()?, reader.version()?);
    let served = if reader.flag()? {
        let (version, kind) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        Some(Served { version, kind, defined: reader.flag()? })
    } else {
        None
    };
    let mut followed = BTreeSet::new();
    while !reader.0.is_empty() {
        followed.insert(reader.text()?.to_owned());
    }
    Ok((FeedRecord { epoch, rewinds, position, newest, served }, followed))
}

/// A route's record as bytes.
pub(super) fn encode_route_record(record: &RouteRecord) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flag(record.synced);
    writer.text(&record.selection);
    writer.number(record.revision.into());
    writer.number(record.resyncs.into());
    writer.text(&record.recipe);
    writer.byte(record.recipe_number);
    writer.finish()
}

/// The same from bytes.
pub(super) fn decode_route_record(bytes: &[u8]) -> Result<RouteRecord, DecodeError> {
    let mut reader = Reader::new(bytes)?;
    let synced = reader.flag()?;
    let selection = reader.text()?.to_owned();
    let (revision, resyncs) = (reader.count()?, reader.count()?);
    let recipe = reader.text()?.to_owned();
    let recipe_number = reader.byte()?;
    reader.end()?;
    Ok(RouteRecord { synced, selection, revision, resyncs, recipe, recipe_number })
}

/// Bytes with the version before them and their checksum behind: what the fuzzer, which cannot guess one, has decoded.
#[cfg(fuzzing)]
pub(super) fn seal(body: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.0.extend_from_slice(body);
    writer.finish()
}
