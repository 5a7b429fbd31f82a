//! Where a state stands in the order of a key's states, also across a rewind of the cluster: the epoch, then the
//! resourceVersion. Not the text of the event attribute `sequence`; that is made of it.

use std::fmt;

use super::ResourceVersion;

/// One continuous life of the cluster's version counter, by the seconds since 1970 at which it began; each is larger
/// than the one before. At most 10 digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The largest one.
    pub const LARGEST: Self = Self(9_999_999_999);

    /// The epoch that began then; later than [`Epoch::LARGEST`] there is none.
    pub fn new(seconds: u64) -> Self {
        Self(seconds.min(Self::LARGEST.0))
    }

    /// Seconds since 1970.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The epoch that begins now: later than this one, whatever the clock says.
    pub fn next(self, now: u64) -> Self {
        Self::new(now.max(self.0 + 1))
    }
}

/// A resourceVersion in its epoch: rises with each state of a key, for ever.
///
/// One number of 128 bits in two halves, so that a hundred thousand of them cost 16 bytes each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    // Order of the fields is order of the sequences.
    high: u64,
    low: u64,
}

impl Sequence {
    /// The place of this version in this epoch.
    pub fn new(epoch: Epoch, resource_version: ResourceVersion) -> Self {
        let number = u128::from(epoch.0) << ResourceVersion::BITS | resource_version.get();
        Self { high: (number >> 64) as u64, low: number as u64 }
    }

    fn number(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// Its epoch.
    pub fn epoch(self) -> Epoch {
        Epoch((self.number() >> ResourceVersion::BITS) as u64)
    }

    /// Its version.
    ///
    /// # Panics
    /// Never: it was made of one.
    pub fn resource_version(self) -> ResourceVersion {
        let mask = (1 << ResourceVersion::BITS) - 1;
        ResourceVersion::new(self.number() & mask).expect("a sequence is made of a resourceVersion")
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch().0, self.resource_version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_later_whatever_the_version_and_both_come_back() {
        let largest = ResourceVersion::new((1 << ResourceVersion::BITS) - 1).unwrap();
        let smallest = ResourceVersion::new(1).unwrap();
        for epoch in [Epoch::default(), Epoch::new(1_700_000_000), Epoch::new(9_999_999_998)] {
            let later = epoch.next(0);
            assert!(Sequence::new(epoch, largest) < Sequence::new(later, smallest));
            assert!(Sequence::new(epoch, smallest) < Sequence::new(epoch, largest));
            let sequence = Sequence::new(epoch, largest);
            assert_eq!((sequence.epoch(), sequence.resource_version()), (epoch, largest));
        }
    }

    #[test]
    fn an_epoch_is_later_than_the_last_even_when_the_clock_steps_back() {
        assert_eq!(Epoch::new(100).next(50), Epoch::new(101));
        assert_eq!(Epoch::new(100).next(500), Epoch::new(500));
    }
}
