//! That a record comes back as it was, that damage is noticed, and what a record costs; and records for other tests.

use proptest::option;
use proptest::prelude::*;

use super::encoding::*;
use crate::model::*;

fn sequence() -> impl Strategy<Value = Sequence> {
    let largest = (1_u128 << ResourceVersion::BITS) - 1;
    let version = prop_oneof![1..200_u128, 1..u128::from(u64::MAX), 1..=largest];
    (0..=Epoch::LARGEST.get(), version)
        .prop_map(|(epoch, version)| Sequence::new(Epoch::new(epoch), ResourceVersion::new(version).unwrap()))
}

fn uid() -> impl Strategy<Value = Uid> {
    prop_oneof!["[a-z0-9-]{1,40}".prop_map(|text| Uid::new(&text)), any::<[u8; 16]>().prop_map(Uid::from_uuid)]
}

fn owed() -> impl Strategy<Value = Owed> {
    use OwedState::{Gone, Left, Missing, Present};
    let state = prop::sample::select(vec![Present, Gone, Left, Missing]);
    let origin =
        prop::sample::select(vec![Origin::Watch, Origin::Relist, Origin::Snapshot, Origin::Resync, Origin::Audit]);
    let cause =
        prop_oneof![Just(Cause::Change), any::<u32>().prop_map(Cause::Selection), any::<u32>().prop_map(Cause::Resync)];
    (uid(), sequence(), state, any::<bool>(), any::<bool>(), origin, cause, any::<u32>()).prop_map(
        |(uid, sequence, state, inferred, existed, origin, cause, coalesced)| Owed {
            uid,
            sequence,
            state,
            inferred,
            existed,
            origin,
            cause,
            coalesced,
        },
    )
}

pub(super) fn key_record() -> impl Strategy<Value = KeyRecord> {
    let told = (uid(), sequence(), any::<u64>(), any::<u8>(), any::<bool>()).prop_map(
        |(uid, sequence, fingerprint, recipe, deleting)| Told { uid, sequence, fingerprint, recipe, deleting },
    );
    let doubt = (uid(), sequence(), any::<bool>()).prop_map(|(uid, sequence, gone)| Doubt { uid, sequence, gone });
    let doubts = proptest::collection::vec(doubt, 0..3);
    let over = (uid(), sequence()).prop_map(|(uid, until)| Over { uid, until });
    let (owed, predecessor) = (option::of(owed()), option::of(owed()));
    (option::of(told), predecessor, owed, doubts, option::of(sequence()), option::of(over)).prop_map(
        |(told, predecessor, owed, doubts, fetched, over)| KeyRecord { told, predecessor, owed, doubts, fetched, over },
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
        prop_assert!(decode_route_record(&bytes).is_err());
    }
}

#[test]
fn what_is_told_of_a_key_is_at_most_50_bytes_beside_the_key() {
    let told = Told {
        uid: Uid::new("01234567-89ab-cdef-0123-456789abcdef"),
        sequence: Sequence::new(Epoch::LARGEST, ResourceVersion::new(9_999_999_999).unwrap()),
        fingerprint: u64::MAX,
        recipe: u8::MAX,
        deleting: false,
    };
    let record = KeyRecord { told: Some(told), ..KeyRecord::default() };
    assert!(encode_key_record(&record).len() <= 50, "{}", encode_key_record(&record).len());
}
