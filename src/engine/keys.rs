//! The keys of a feed, each with a number: all its routes share one copy of the text, and what they know of a key is at
//! its number. Not what they know.

use std::hash::Hasher;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::model::Key;

/// A key's number, as long as any route knows something of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyNumber(u32);

impl KeyNumber {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The keys by number. Nothing depends on the order of the hash table: it is only asked for single keys.
pub(super) struct Keys {
    keys: Vec<Option<Key>>,
    // Whether the list that is under way has shown the key.
    listed: Vec<bool>,
    index: HashTable<KeyNumber>,
    free: Vec<KeyNumber>,
    seed: u64,
}

impl Keys {
    /// No keys. The seed keeps whoever names objects from choosing names that collide.
    pub(super) fn new(seed: u64) -> Self {
        Self { keys: Vec::new(), listed: Vec::new(), index: HashTable::new(), free: Vec::new(), seed }
    }

    fn hash(seed: u64, key: &Key) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(seed, seed);
        hasher.write(key.as_str().as_bytes());
        hasher.finish()
    }

    /// Numbers that were ever given: all tables by number have this length.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of this key, if it has one.
    pub(super) fn find(&self, key: &Key) -> Option<KeyNumber> {
        let same = |number: &KeyNumber| self.keys[number.index()].as_ref() == Some(key);
        self.index.find(Self::hash(self.seed, key), same).copied()
    }

    /// The number of this key, which it gets now if it has none.
    pub(super) fn number(&mut self, key: &Key) -> KeyNumber {
        if let Some(number) = self.find(key) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            // A doubling would leave half of the table empty; an eighth costs little more copying.
            reserve(&mut self.keys);
            reserve(&mut self.listed);
            self.keys.push(None);
            self.listed.push(false);
            KeyNumber(u32::try_from(self.keys.len() - 1).expect("fewer than four billion keys"))
        });
        self.keys[number.index()] = Some(key.clone());
        self.listed[number.index()] = false;
        let (keys, seed) = (&self.keys, self.seed);
        let rehash = |number: &KeyNumber| keys[number.index()].as_ref().map_or(0, |key| Self::hash(seed, key));
        self.index.insert_unique(Self::hash(seed, key), number, rehash);
        number
    }

    /// The key of this number.
    ///
    /// # Panics
    /// When the number was given back.
    pub(super) fn key(&self, number: KeyNumber) -> &Key {
        self.keys[number.index()].as_ref().expect("the number is in use")
    }

    /// Gives the number back: another key may get it.
    pub(super) fn forget(&mut self, number: KeyNumber) {
        if let Some(key) = self.keys[number.index()].take() {
            if let Ok(found) = self.index.find_entry(Self::hash(self.seed, &key), |other| *other == number) {
                found.remove();
            }
            self.free.push(number);
        }
    }

    /// All numbers in use, in their order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = KeyNumber> {
        let used = self.keys.iter().enumerate().filter(|(_, key)| key.is_some());
        used.map(|(number, _)| KeyNumber(number as u32))
    }

    /// A list begins: it has shown nothing yet.
    pub(super) fn begin_list(&mut self) {
        self.listed.fill(false);
    }

    /// The list shows this key, or takes it back.
    pub(super) fn set_listed(&mut self, number: KeyNumber, listed: bool) {
        self.listed[number.index()] = listed;
    }

    /// Whether the list has shown this key.
    pub(super) fn is_listed(&self, number: KeyNumber) -> bool {
        self.listed[number.index()]
    }
}

/// Room for one more, growing by an eighth.
pub(super) fn reserve<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() {
        table.reserve_exact(table.len() / 8 + 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number_until_it_is_given_back() {
        let mut keys = Keys::new(7);
        let names: Vec<Key> = (0..1_000).map(|number| Key::new("a", &format!("app-{number}"))).collect();
        let numbers: Vec<KeyNumber> = names.iter().map(|key| keys.number(key)).collect();
        for (key, number) in names.iter().zip(&numbers) {
            assert_eq!((keys.find(key), keys.key(*number)), (Some(*number), key));
        }
        keys.set_listed(numbers[3], true);
        keys.forget(numbers[3]);
        assert_eq!(keys.find(&names[3]), None);
        assert_eq!(keys.index.len(), 999, "nothing is left of it in the index");
        let other = Key::new("b", "other");
        assert_eq!(keys.number(&other), numbers[3], "a number that is free is given again");
        assert!(!keys.is_listed(numbers[3]), "what a list has shown of one key says nothing of another");
        assert_eq!((keys.len(), keys.numbers().count()), (1_000, 1_000));
    }
}
