//! The store on disk: one redb file in the state directory. It keeps what it is handed and judges nothing but its own
//! health.
//!
//! Each commit is durable when it returns (two phases, synced). A file is created under another name, synced and
//! renamed, since a crash during creation would leave one that does not open. Below 512 MiB all checksums are verified on
//! open: a bit that flipped in a cleanly closed file would otherwise be read as a wrong value.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::ops::Bound;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::encoding::{self, DecodeError};
use super::{FeedState, Identity, Store, StoreError};
use crate::model::{Epoch, FeedRecord, Key, Save};

const FILE: &str = "state.redb";
const FORMAT: u64 = 2;
const CACHE_BYTES: usize = 4 << 20;
const CHECK_BELOW_BYTES: u64 = 512 << 20;

// Keys are joined by NUL, which no Kubernetes name and no name in the configuration may contain.
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const FEEDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("feeds");
// By route and feed.
const ROUTES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("routes");
// By route and key.
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// How a state directory is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Refuse to start where there is no state yet.
    pub must_exist: bool,
    /// Seconds since 1970: the epoch of a store that is created now.
    pub now: u64,
    /// The fingerprint key of a store that is created now.
    pub fingerprint_key: [u8; 16],
}

/// A state that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Where it is now.
    pub path: PathBuf,
    /// The newest epoch that it knew of, if it could be read: what begins anew has to begin after it.
    pub epoch: Option<Epoch>,
}

/// Opens the database again after a failure; a test puts a disk that fails in here.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// The store in a state directory. The file is locked as long as this lives.
pub struct DiskStore {
    path: PathBuf,
    opener: Opener,
    // `None` only while it is reopened after a failure.
    database: Option<Database>,
    identity: Identity,
}

impl DiskStore {
    /// Opens the state in this directory, or creates it.
    ///
    /// # Errors
    /// When there is none and one must exist, another process has it, a newer crier wrote it, it is corrupt, or the
    /// file system refuses. Nothing is changed or removed then.
    pub fn open(directory: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let path = directory.join(FILE);
        if !path.try_exists().map_err(|source| io(&path, source))? {
            if options.must_exist {
                return Err(StoreError::Missing(path));
            }
            create(directory, &path, options)?;
        }
        let file = path.clone();
        Self::over(path, Box::new(move || open_database(&file)))
    }

    /// Sets the state in this directory aside under another name, whatever it is like, so that the next one begins anew.
    /// `None` if there was none.
    ///
    /// # Errors
    /// When another process has it, or the file system refuses.
    pub fn set_aside(directory: &Path, now: u64) -> Result<Option<SetAside>, StoreError> {
        let path = directory.join(FILE);
        if !path.try_exists().map_err(|source| io(&path, source))? {
            return Ok(None);
        }
        let file = path.clone();
        let epoch = match Self::over(path.clone(), Box::new(move || open_database(&file))) {
            Ok(store) => Some(store.identity.epoch),
            Err(error @ StoreError::Locked(_)) => return Err(error),
            Err(_) => None,
        };
        let file = File::open(&path).map_err(|source| io(&path, source))?;
        // The lock that the database takes; what is corrupt cannot be asked otherwise.
        if file.try_lock().is_err() {
            return Err(StoreError::Locked(path));
        }
        let aside = directory.join(format!("{FILE}.set-aside-{now}"));
        fs::rename(&path, &aside).map_err(|source| io(&path, source))?;
        File::open(directory).and_then(|folder| folder.sync_all()).map_err(|source| io(&path, source))?;
        Ok(Some(SetAside { path: aside, epoch }))
    }

    /// The store over whatever the opener opens; `path` is what its errors name.
    pub(super) fn over(path: PathBuf, opener: Opener) -> Result<Self, StoreError> {
        let database = opener()?;
        let identity = guarded(&path, || read_identity(&path, &database))?;
        Ok(Self { path, opener, database: Some(database), identity })
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or_else(|| StoreError::Database("it is closed after a failure".to_owned()))
    }

    fn try_commit(&self, feed: &str, routes: &[String], save: &Save) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = begin(self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?)?;
            {
                let followed = save.followed.iter().map(|route| &*routes[*route]);
                transaction.open_table(FEEDS)?.insert(feed, &*encoding::encode_feed_record(&save.feed, followed))?;
                let mut table = transaction.open_table(ROUTES)?;
                for (route, record) in routes.iter().zip(&save.routes) {
                    let place = join(&[route, feed]);
                    let bytes = encoding::encode_route_record(record);
                    // Most saves leave it as it is.
                    if table.get(&*place)?.is_none_or(|known| known.value() != bytes) {
                        table.insert(&*place, &*bytes)?;
                    }
                }
                if save.feed.epoch > self.identity.epoch {
                    let (epoch, rewinds) = (save.feed.epoch.get(), u64::from(save.feed.rewinds));
                    let mut meta = transaction.open_table(META)?;
                    meta.insert("epoch", &epoch.to_le_bytes()[..])?;
                    meta.insert("rewinds", &rewinds.to_le_bytes()[..])?;
                }
                let mut records = transaction.open_table(RECORDS)?;
                for (route, key, record) in &save.records {
                    let place = join(&[&routes[*route], key.as_str()]);
                    if record.is_empty() {
                        records.remove(&*place)?;
                    } else {
                        records.insert(&*place, &*encoding::encode_key_record(record))?;
                    }
                }
            }
            Ok(transaction.commit()?)
        };
        guarded(&self.path, || write().map_err(|error| database(&self.path, error)))
    }

    /// After a failure of the disk the handle is not to be trusted: what is on the disk is read anew.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.database = None;
        self.database = Some((self.opener)()?);
        Ok(())
    }
}

impl Store for DiskStore {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn bind_cluster(&mut self, uid: &str) -> Result<(), StoreError> {
        match &self.identity.cluster {
            Some(bound) if bound == uid => Ok(()),
            Some(bound) => Err(StoreError::OtherCluster { bound: bound.clone(), cluster: uid.to_owned() }),
            None => {
                let handle = self.database()?;
                let write = || -> Result<(), redb::Error> {
                    let transaction = begin(handle)?;
                    transaction.open_table(META)?.insert("cluster", uid.as_bytes())?;
                    Ok(transaction.commit()?)
                };
                guarded(&self.path, || write().map_err(|error| database(&self.path, error)))?;
                self.identity.cluster = Some(uid.to_owned());
                Ok(())
            }
        }
    }

    fn load(
        &self,
        feed: &str,
        routes: &[String],
        belongs: &dyn Fn(usize, &Key) -> bool,
    ) -> Result<FeedState, StoreError> {
        let handle = self.database()?;
        guarded(&self.path, || load(&self.path, handle, feed, routes, belongs))
    }

    fn commit(&mut self, feed: &str, routes: &[String], save: &Save) -> Result<(), StoreError> {
        if self.database.is_none() {
            self.reopen()?;
        }
        let done = self.try_commit(feed, routes, save);
        if done.is_err() {
            // The first error is the one to report; the next commit opens again if this did not.
            self.database = None;
            drop(self.reopen());
        } else if save.feed.epoch > self.identity.epoch {
            (self.identity.epoch, self.identity.rewinds) = (save.feed.epoch, save.feed.rewinds);
        }
        done
    }
}

fn load(
    path: &Path,
    handle: &Database,
    feed: &str,
    routes: &[String],
    belongs: &dyn Fn(usize, &Key) -> bool,
) -> Result<FeedState, StoreError> {
    let failed = |error: redb::Error| database(path, error);
    let damaged =
        |what: &str, error: DecodeError| StoreError::Corrupt { path: path.into(), reason: format!("{what}: {error}") };
    let transaction = handle.begin_read().map_err(|error| failed(error.into()))?;
    let table = |definition| transaction.open_table(definition).map_err(|error| failed(error.into()));
    let feeds = table(FEEDS)?;
    let read_feed = |feed: &str| match feeds.get(feed).map_err(|error| failed(error.into()))? {
        Some(bytes) => encoding::decode_feed_record(bytes.value()).map_err(|error| damaged(feed, error)),
        None => Ok((FeedRecord::default(), BTreeSet::new())),
    };
    let (record, followed) = read_feed(feed)?;
    let mut state = FeedState { feed: record, routes: Vec::new() };
    let (route_records, records) = (table(ROUTES)?, table(RECORDS)?);
    for (number, route) in routes.iter().enumerate() {
        let (from, to) = (format!("{route}\0"), format!("{route}\u{1}"));
        let range = || (Bound::Included(&*from), Bound::Excluded(&*to));
        let mut known = Vec::new();
        for row in route_records.range::<&str>(range()).map_err(|error| failed(error.into()))? {
            let (place, bytes) = row.map_err(|error| failed(error.into()))?;
            let record = encoding::decode_route_record(bytes.value()).map_err(|error| damaged(route, error))?;
            let of = place.value()[from.len()..].to_owned();
            let other = read_feed(&of)?.0;
            known.push((of, record, other));
        }
        let mut of_route = super::record_here_and_elsewhere(
            feed,
            known.iter().map(|(of, record, other)| (&**of, record.clone(), other.clone())),
        );
        of_route.followed = followed.contains(route);
        for row in records.range::<&str>(range()).map_err(|error| failed(error.into()))? {
            let (place, bytes) = row.map_err(|error| failed(error.into()))?;
            let key = Key::from_text(&place.value()[from.len()..]);
            if belongs(number, &key) {
                let record =
                    encoding::decode_key_record(bytes.value()).map_err(|error| damaged(key.as_str(), error))?;
                of_route.records.push((key, record));
            }
        }
        state.routes.push(of_route);
    }
    Ok(state)
}

fn begin(handle: &Database) -> Result<redb::WriteTransaction, redb::Error> {
    let mut transaction = handle.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

fn create(directory: &Path, path: &Path, options: &OpenOptions) -> Result<(), StoreError> {
    let draft = directory.join("state.redb.new");
    let file_system = |result: std::io::Result<()>| result.map_err(|source| io(path, source));
    file_system(fs::create_dir_all(directory))?;
    if draft.exists() {
        // Left by a crash during creation; nothing was ever committed to it.
        file_system(fs::remove_file(&draft))?;
    }
    let make = || -> Result<(), redb::Error> {
        let handle = Builder::new().set_cache_size(CACHE_BYTES).create(&draft)?;
        fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
        fill(&handle, options)
    };
    make().map_err(|error| database(path, error))?;
    file_system(File::open(&draft).and_then(|file| file.sync_all()))?;
    file_system(fs::rename(&draft, path))?;
    file_system(File::open(directory).and_then(|folder| folder.sync_all()))
}

/// Writes what a new store begins with: its identity, and all tables, so that a missing one is damage ever after.
pub(super) fn fill(handle: &Database, options: &OpenOptions) -> Result<(), redb::Error> {
    let transaction = begin(handle)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", &FORMAT.to_le_bytes()[..])?;
        meta.insert("epoch", &options.now.to_le_bytes()[..])?;
        meta.insert("rewinds", &0_u64.to_le_bytes()[..])?;
        meta.insert("fingerprint-key", &options.fingerprint_key[..])?;
        transaction.open_table(FEEDS)?;
        transaction.open_table(ROUTES)?;
        transaction.open_table(RECORDS)?;
    }
    Ok(transaction.commit()?)
}

fn open_database(path: &Path) -> Result<Database, StoreError> {
    let size = fs::metadata(path).map_err(|source| io(path, source))?.len();
    open_by(path, size, |builder| builder.open(path))
}

/// Opens with the settings, and answers errors in the words, that hold for every store on disk.
pub(super) fn open_by(
    path: &Path,
    size: u64,
    open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
) -> Result<Database, StoreError> {
    guarded(path, || {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(size < CHECK_BELOW_BYTES);
        open(&builder).map_err(|error| match error {
            // A file that exists and is no database any more is damage, not a first start.
            DatabaseError::Storage(redb::StorageError::Io(source))
                if matches!(source.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof) =>
            {
                StoreError::Corrupt { path: path.into(), reason: source.to_string() }
            }
            other => database(path, other.into()),
        })
    })
}

fn read_identity(path: &Path, handle: &Database) -> Result<Identity, StoreError> {
    let read = || -> Result<[Option<Vec<u8>>; 5], redb::Error> {
        let meta = handle.begin_read()?.open_table(META)?;
        let get = |name| Ok::<_, redb::Error>(meta.get(name)?.map(|bytes| bytes.value().to_vec()));
        Ok([get("format")?, get("epoch")?, get("rewinds")?, get("fingerprint-key")?, get("cluster")?])
    };
    let [format, epoch, rewinds, fingerprint_key, cluster] = read().map_err(|error| database(path, error))?;
    let damaged = || StoreError::Corrupt { path: path.into(), reason: "its identity is incomplete".to_owned() };
    let number = |bytes: Option<Vec<u8>>| Some(u64::from_le_bytes(bytes?.try_into().ok()?));
    let found = number(format).ok_or_else(damaged)?;
    if found > FORMAT {
        return Err(StoreError::NewerFormat { path: path.into(), found, known: FORMAT });
    }
    if found < FORMAT {
        return Err(StoreError::OlderFormat { path: path.into(), found, known: FORMAT });
    }
    Ok(Identity {
        epoch: number(epoch).map(Epoch::new).ok_or_else(damaged)?,
        rewinds: number(rewinds).and_then(|rewinds| rewinds.try_into().ok()).ok_or_else(damaged)?,
        fingerprint_key: fingerprint_key.and_then(|bytes| bytes.try_into().ok()).ok_or_else(damaged)?,
        cluster: cluster.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    })
}

/// A panic inside the database over damaged pages is damage, not the end of the process.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Corrupt { path: path.into(), reason: "the database panicked over its pages".to_owned() })
    })
}

fn io(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { path: path.into(), source }
}

fn database(path: &Path, error: redb::Error) -> StoreError {
    let path = path.to_owned();
    match error {
        redb::Error::Io(source) => StoreError::Io { path, source },
        redb::Error::PreviousIo => io(&path, std::io::Error::other("an earlier write failed")),
        redb::Error::DatabaseAlreadyOpen => StoreError::Locked(path),
        redb::Error::Corrupted(reason) => StoreError::Corrupt { path, reason },
        redb::Error::UpgradeRequired(found) => {
            StoreError::Corrupt { path, reason: format!("the database has file format {found}") }
        }
        // All tables are made when the file is: a table that is missing or of another type is damage.
        error @ (redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => {
            StoreError::Corrupt { path, reason: error.to_string() }
        }
        other => StoreError::Database(other.to_string()),
    }
}

fn join(parts: &[&str]) -> String {
    parts.join("\0")
}
