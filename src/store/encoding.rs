//! Records as bytes: a version byte, the fields, a checksum. Plain and compact, so that no library's layout is in it.

use std::collections::BTreeSet;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::model::{Doubt, FeedRecord, KeyRecord, Origin, Owed, OwedState, ResourceVersion, Served, Told, Uid};

const VERSION: u8 = 1;
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

    fn owed(&mut self, owed: Option<&Owed>) {
        let Some(owed) = owed else { return self.byte(0) };
        self.byte(match owed.state {
            OwedState::Present => 1,
            OwedState::Gone { inferred: false } => 2,
            OwedState::Gone { inferred: true } => 3,
        });
        self.text(owed.uid.as_str());
        self.version(Some(owed.resource_version));
        self.byte(owed.origin as u8);
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

    fn owed(&mut self) -> Result<Option<Owed>, DecodeError> {
        let state = match self.byte()? {
            0 => return Ok(None),
            1 => OwedState::Present,
            2 => OwedState::Gone { inferred: false },
            3 => OwedState::Gone { inferred: true },
            _ => return Err(DecodeError::Layout),
        };
        let uid = Uid::new(self.text()?);
        let resource_version = self.version()?.ok_or(DecodeError::Layout)?;
        let origins = [Origin::Watch, Origin::Relist, Origin::Snapshot, Origin::Resync, Origin::Audit];
        let origin = *origins.get(usize::from(self.byte()?)).ok_or(DecodeError::Layout)?;
        let coalesced = self.number()?.try_into().map_err(|_| DecodeError::Layout)?;
        Ok(Some(Owed { uid, resource_version, state, origin, coalesced }))
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
            writer.text(told.uid.as_str());
            writer.version(Some(told.resource_version));
            writer.0.extend_from_slice(&told.fingerprint.to_le_bytes());
        }
    }
    writer.owed(record.predecessor.as_ref());
    writer.owed(record.owed.as_ref());
    writer.number(record.doubts.len() as u128);
    for doubt in &record.doubts {
        writer.text(doubt.uid.as_str());
        writer.version(Some(doubt.resource_version));
    }
    writer.version(record.fetched);
    writer.finish()
}

/// A key's record from bytes.
pub(super) fn decode_key_record(bytes: &[u8]) -> Result<KeyRecord, DecodeError> {
    let mut reader = Reader::new(bytes)?;
    let told = match reader.byte()? {
        0 => None,
        kind @ (1 | 2) => {
            let uid = Uid::new(reader.text()?);
            let resource_version = reader.version()?.ok_or(DecodeError::Layout)?;
            let (fingerprint, rest) = reader.0.split_first_chunk::<8>().ok_or(DecodeError::Layout)?;
            reader.0 = rest;
            let fingerprint = u64::from_le_bytes(*fingerprint);
            Some(Told { uid, resource_version, fingerprint, deleting: kind == 2 })
        }
        _ => return Err(DecodeError::Layout),
    };
    let (predecessor, owed) = (reader.owed()?, reader.owed()?);
    let mut doubts = Vec::new();
    for _ in 0..reader.number()? {
        let uid = Uid::new(reader.text()?);
        let resource_version = reader.version()?.ok_or(DecodeError::Layout)?;
        doubts.push(Doubt { uid, resource_version });
    }
    let fetched = reader.version()?;
    reader.end()?;
    Ok(KeyRecord { told, predecessor, owed, doubts, fetched })
}

/// A feed's record, and the names of the routes that have followed up to its position, as bytes.
pub(super) fn encode_feed_record<'a>(record: &FeedRecord, followed: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.version(record.position);
    writer.version(record.newest);
    if let Some(served) = &record.served {
        writer.byte(1);
        writer.text(&served.version);
        writer.text(&served.kind);
    } else {
        writer.byte(0);
    }
    for route in followed {
        writer.text(route);
    }
    writer.finish()
}

/// The same from bytes.
pub(super) fn decode_feed_record(bytes: &[u8]) -> Result<(FeedRecord, BTreeSet<String>), DecodeError> {
    let mut reader = Reader::new(bytes)?;
    let (position, newest) = (reader.version()?, reader.version()?);
    let served = match reader.byte()? {
        0 => None,
        1 => Some(Served { version: reader.text()?.to_owned(), kind: reader.text()?.to_owned() }),
        _ => return Err(DecodeError::Layout),
    };
    let mut followed = BTreeSet::new();
    while !reader.0.is_empty() {
        followed.insert(reader.text()?.to_owned());
    }
    Ok((FeedRecord { position, newest, served }, followed))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn version() -> impl Strategy<Value = ResourceVersion> {
        prop_oneof![1..200_u128, 1..u128::from(u64::MAX), 1..u128::MAX].prop_map(|n| ResourceVersion::new(n).unwrap())
    }

    fn uid() -> impl Strategy<Value = Uid> {
        "[a-z0-9-]{1,40}".prop_map(|text| Uid::new(&text))
    }

    fn owed() -> impl Strategy<Value = Owed> {
        let state =
            prop_oneof![Just(OwedState::Present), any::<bool>().prop_map(|inferred| OwedState::Gone { inferred })];
        let origin = prop_oneof![
            Just(Origin::Watch),
            Just(Origin::Relist),
            Just(Origin::Snapshot),
            Just(Origin::Resync),
            Just(Origin::Audit)
        ];
        (uid(), version(), state, origin, any::<u32>()).prop_map(|(uid, resource_version, state, origin, coalesced)| {
            Owed { uid, resource_version, state, origin, coalesced }
        })
    }

    pub(in crate::store) fn key_record() -> impl Strategy<Value = KeyRecord> {
        let told = (uid(), version(), any::<u64>(), any::<bool>()).prop_map(
            |(uid, resource_version, fingerprint, deleting)| Told { uid, resource_version, fingerprint, deleting },
        );
        let doubt = (uid(), version()).prop_map(|(uid, resource_version)| Doubt { uid, resource_version });
        let doubts = proptest::collection::vec(doubt, 0..3);
        (option::of(told), option::of(owed()), option::of(owed()), doubts, option::of(version())).prop_map(
            |(told, predecessor, owed, doubts, fetched)| KeyRecord { told, predecessor, owed, doubts, fetched },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_record_comes_back_as_it_was_and_any_flipped_bit_is_noticed(record in key_record(), bit in any::<usize>()) {
            let mut bytes = encode_key_record(&record);
            prop_assert_eq!(decode_key_record(&bytes), Ok(record));
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode_key_record(&bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_decode(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(decode_key_record(&bytes).is_err() && decode_feed_record(&bytes).is_err());
        }
    }

    #[test]
    fn what_is_told_of_a_key_is_at_most_70_bytes_beside_the_key() {
        let told = Told {
            uid: Uid::new("01234567-89ab-cdef-0123-456789abcdef"),
            resource_version: ResourceVersion::new(9_999_999_999).unwrap(),
            fingerprint: u64::MAX,
            deleting: false,
        };
        let record = KeyRecord { told: Some(told), ..KeyRecord::default() };
        assert!(encode_key_record(&record).len() <= 70, "{}", encode_key_record(&record).len());
    }
}
