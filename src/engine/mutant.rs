//! Named faults of the engine, each of which the simulator has to catch: what a rule is for is shown by what happens
//! without it. None is ever active unless a test plants it, and builds without debug assertions have none at all.

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A debt is attempted before the store knows of it.
    AttemptBeforeSave,
    /// The position is saved without the debts that were made on the way to it.
    PositionWithoutDebts,
    /// The version of a list is saved when the list begins, before its comparison is complete.
    ListPositionEarly,
    /// An unchanged fingerprint means "no event" even when the sink may have been told of another state.
    NoOpInDoubt,
    /// Absence of what may have been told, but is not known to be, is not told.
    AbsenceIgnoresDoubt,
    /// A state is taken for told when it is attempted.
    ToldBeforeAnswer,
    /// Repeats are recognised within one incarnation only.
    RepeatsByUid,
    /// A deletion is taken for one of whatever incarnation is known.
    DeletionOfAnotherUid,
    /// A list speaks of what is newer than itself, too.
    AbsenceBeyondList,
    /// What a route has told of other namespaces than its feed reads is taken for deleted.
    AbsenceOutsideScope,
    /// A failed list counts as a complete one.
    DeletionsFromFailedList,
    /// The deletion of an earlier incarnation is not owed when the next one is seen.
    PredecessorForgotten,
    /// The position goes on from the changes of a watch that was ended for a list.
    ListBesideWatch,
    /// After an edit of the selection the watch is resumed from the old position.
    SelectionEditResumes,
    /// Only the saved position tells of a rewind, not the newest version that was ever given.
    RewindByPositionAlone,
    /// A rewind is noticed by the probe alone: a list is not searched for its traces.
    RewindByProbeAlone,
    /// What was owed when a rewind was noticed stays owed.
    DebtsSurviveRewind,
    /// A rewind gives no ids of its own.
    IdsWithoutEpoch,
    /// What a selection edit finds has the ids of what was told before it.
    IdsWithoutRevision,
    /// What a resync tells has the ids of what was told before it.
    IdsWithoutResync,
    /// A newer state overtakes the delivery that is in flight.
    InFlightOvertaken,
    /// A key that changes without a pause is never released.
    DebounceWithoutMaxWait,
    /// A restart takes nothing for doubtful.
    RestartWithoutDoubt,
    /// What stood behind a delivery goes out before the store knows the answer.
    SuccessorBeforeAnswerIsSaved,
    /// What a fetch or a look has found leaves no mark on its key.
    AnswerLeavesNoMark,
    /// An answer settles what came up after it was asked for.
    AnswerBeforeQuestion,
    /// A fetched state that the position has passed counts as news.
    FetchBehindPosition,
    /// A fetched state counts as news after the end that was found while it was on its way.
    FetchBeforeEnd,
    /// A verdict settles whatever the key owes.
    VerdictSettlesNewer,
    /// Under a selector for the server whatever leaves the selection is told as deleted.
    LeftIsDeleted,
    /// A fetch that was answered by an earlier life of the cluster is believed.
    FetchFromEarlierEpoch,
    /// A route that was out of the configuration resumes with the others.
    UnfollowedRouteResumes,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::AttemptBeforeSave,
        Self::PositionWithoutDebts,
        Self::ListPositionEarly,
        Self::NoOpInDoubt,
        Self::AbsenceIgnoresDoubt,
        Self::ToldBeforeAnswer,
        Self::RepeatsByUid,
        Self::DeletionOfAnotherUid,
        Self::AbsenceBeyondList,
        Self::AbsenceOutsideScope,
        Self::DeletionsFromFailedList,
        Self::PredecessorForgotten,
        Self::ListBesideWatch,
        Self::SelectionEditResumes,
        Self::RewindByPositionAlone,
        Self::RewindByProbeAlone,
        Self::DebtsSurviveRewind,
        Self::IdsWithoutEpoch,
        Self::IdsWithoutRevision,
        Self::IdsWithoutResync,
        Self::InFlightOvertaken,
        Self::DebounceWithoutMaxWait,
        Self::RestartWithoutDoubt,
        Self::SuccessorBeforeAnswerIsSaved,
        Self::AnswerLeavesNoMark,
        Self::AnswerBeforeQuestion,
        Self::FetchBehindPosition,
        Self::FetchBeforeEnd,
        Self::VerdictSettlesNewer,
        Self::LeftIsDeleted,
        Self::FetchFromEarlierEpoch,
        Self::UnfollowedRouteResumes,
    ];
}

impl Mutant {
    /// Those that take more luck than a few thousand simulated runs have: scripts in virtual time hold these.
    pub const SCRIPTED: [Self; 5] = [
        Self::IdsWithoutEpoch,
        Self::AnswerBeforeQuestion,
        Self::FetchFromEarlierEpoch,
        Self::FetchBehindPosition,
        Self::FetchBeforeEnd,
    ];
}

#[cfg(debug_assertions)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plants this fault into all engines of this thread, or takes it out. Without debug assertions it does nothing.
pub fn plant(mutant: Option<Mutant>) {
    #[cfg(debug_assertions)]
    PLANTED.set(mutant);
    #[cfg(not(debug_assertions))]
    let _ = mutant;
}

/// Whether this fault is planted.
#[inline]
pub(super) fn planted(mutant: Mutant) -> bool {
    #[cfg(debug_assertions)]
    return PLANTED.get() == Some(mutant);
    #[cfg(not(debug_assertions))]
    {
        let _ = mutant;
        false
    }
}
