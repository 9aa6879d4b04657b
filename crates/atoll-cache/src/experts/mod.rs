//! Several policies at once. Which of them decides is learnt from their regrets (Ditto, SOSP 2023,
//! section 4.3; LeCaR, HotStorage 2018).
//!
//! Every policy of an [`ExpertSet`] is an expert with a weight. At an eviction each expert names
//! its candidate, and a draw by the weights chooses the victim ([`Experts::choose`]). The evicted
//! key's ghost names the experts that chose it. If the key is asked for again while its ghost
//! lives, they lose weight ([`Experts::regret`]): the younger the ghost, the more.
//!
//! | step | this client alone | all clients |
//! |---|---|---|
//! | a regret | the local weights are lowered, the penalty is added to the buffer | |
//! | after [`Settings::batch`] regrets | [`Experts::penalties`] returns one word an expert | each word is added to the pool's by FAA |
//! | then | [`Experts::merged`] replaces the local weights | by the words that the pool holds now |
//!
//! | module | concept |
//! |---|---|
//! | `set` | which policies, by name; their words beside an object |
//! | `weights` | weights, penalties, and the form in which the pool merges them |
//! | `miniature` | every expert tried out on some keys: how weights are learnt unless [`Settings::miniature_objects`] is zero |
//! | `table` | a sampled table in ordinary memory, for miniatures and for studies |
//!
//! It uses no clock, no thread and no random number: times and a random word are arguments.

mod miniature;
mod set;
mod table;
mod weights;

pub use set::{ExpertSet, ExpertSetError};
pub use table::{HISTORY_PER_OBJECT, REMEMBERED_MAX, SAMPLE_BUCKETS, Table};
/// The shipped set: quick demotion, also with younger ghosts, for long loops; hyperbolic over idle
/// time, for loads where popularity lasts; LFU, for loads where it never ends.
pub const DEFAULT_SET: &str = "quick-demotion+quick-demotion-strict+hyperbolic-idle+lfu";

pub use weights::{PENALTY_UNIT, Settings, Weights};

use crate::policy::{Ghost, Object, Priority};
use arrayvec::ArrayVec;
use miniature::Miniatures;

/// Most experts of a set: a ghost has a bit for each.
pub const EXPERTS_MAX: usize = crate::policy::GHOST_EXPERTS_MAX;

/// Most candidates that are ranked: as many as a sample has.
const RANKED_MAX: usize = table::CANDIDATES_MAX;

/// One object that may be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The access information beside its slot.
    pub object: Object,
    /// The set's words beside the object, [`ExpertSet::extension_words`] of them.
    pub extension: &'a [u64],
}

/// The decision for one eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The victim's place among the candidates.
    pub victim: usize,
    /// The experts that named it, for its ghost: bit i for expert i. With miniatures, only the
    /// expert that decided.
    pub experts: u16,
}

/// One client's experts.
#[derive(Clone, Debug)]
pub struct Experts {
    set: ExpertSet,
    weights: Weights,
    /// Present exactly if the weights are learnt by miniatures.
    miniatures: Option<Miniatures>,
}

impl Experts {
    /// The experts of `set`, all of the same weight, for a cache of about `objects_max` objects.
    pub fn new(set: ExpertSet, settings: Settings, objects_max: u64) -> Self {
        let weights = Weights::new(set.len(), settings);
        let miniatures = Miniatures::new(&set, &settings, objects_max);
        Self { set, weights, miniatures }
    }

    /// Shows the experts an access of this client to a key, hit or insertion. True if it is time to
    /// send the [`Self::penalties`].
    pub fn observe(&mut self, hash: u64, bytes: u64, now_us: u64) -> bool {
        let Some(miniatures) = &mut self.miniatures else { return false };
        let missed = miniatures.access(hash, bytes, now_us);
        missed != 0 && self.weights.missed(missed)
    }

    /// Notes an eviction of this client, which has that number among all of the pool's. From that
    /// the client knows its part of all requests.
    pub fn evicted(&mut self, number: u64) {
        if let Some(miniatures) = &mut self.miniatures {
            miniatures.evicted(&self.set, number);
        }
    }

    /// The expert with the largest weight, the first of equals.
    pub fn leader(&self) -> usize {
        let weights = self.weights();
        (1..weights.len()).fold(0, |leader, expert| if weights[expert] > weights[leader] { expert } else { leader })
    }

    /// The policies.
    pub fn set(&self) -> &ExpertSet {
        &self.set
    }

    /// The weights, which add up to one.
    pub fn weights(&self) -> &[f64] {
        self.weights.all()
    }

    /// Chooses a victim at `now_us`; `None` if there are no candidates. `random` is a uniform word.
    ///
    /// If the victim has changed meanwhile, the caller removes it from the candidates and asks
    /// again.
    pub fn choose(&self, now_us: u64, candidates: &[Candidate<'_>], random: u64) -> Option<Choice> {
        let victim_of = |expert: usize| {
            let priority = |candidate: &Candidate<'_>| -> Priority {
                self.set.priority(expert, now_us, &candidate.object, candidate.extension)
            };
            (0..candidates.len()).min_by_key(|&place| priority(&candidates[place]))
        };
        if self.decides_alone() {
            // Without regrets no client needs the other experts' candidates.
            let leader = self.leader();
            return Some(Choice { victim: victim_of(leader)?, experts: 1 << leader });
        }
        // The distinct candidates, each with the experts that name it.
        let mut named: ArrayVec<Choice, EXPERTS_MAX> = ArrayVec::new();
        for expert in 0..self.set.len() {
            let victim = victim_of(expert)?;
            match named.iter_mut().find(|choice| choice.victim == victim) {
                Some(choice) => choice.experts |= 1 << expert,
                None => named.push(Choice { victim, experts: 1 << expert }),
            }
        }
        let chances = named.iter().map(|choice| self.weights.chance(choice.experts, named.len()));
        // The upper 53 bits fill a float's mantissa: even steps from 0 to below 1.
        let mut left = (random >> 11) as f64 / (1_u64 << 53) as f64;
        for (choice, chance) in named.iter().zip(chances) {
            left -= chance;
            if left < 0.0 {
                return Some(*choice);
            }
        }
        // Rounded chances may add up to a little less than one.
        named.last().copied()
    }

    /// As [`Self::choose`]. It also returns the places of the candidates that the leader would name
    /// next. The caller looks at them again at its next eviction.
    pub fn choose_and_rank<const N: usize>(
        &self,
        now_us: u64,
        candidates: &[Candidate<'_>],
        random: u64,
    ) -> Option<(Choice, ArrayVec<usize, N>)> {
        let leader = self.leader();
        let priority =
            |candidate: &Candidate<'_>| self.set.priority(leader, now_us, &candidate.object, candidate.extension);
        let ranked = candidates.iter().map(priority).zip(0..);
        let mut ranked: ArrayVec<(Priority, usize), RANKED_MAX> = ranked.take(RANKED_MAX).collect();
        if ranked.len() > N + 1 {
            ranked.select_nth_unstable(N + 1);
        }
        let choice = match self.decides_alone() {
            // The lowest of all is among the first.
            true => Choice { victim: ranked.iter().take(N + 1).min()?.1, experts: 1 << leader },
            false => self.choose(now_us, candidates, random)?,
        };
        let next = ranked.into_iter().map(|(_, place)| place).filter(|place| *place != choice.victim);
        Some((choice, next.take(N).collect()))
    }

    /// The frequency of an object at its insertion, to the leader.
    pub fn frequency_at_insertion(&self, ghost: Option<Ghost>) -> u64 {
        self.set.policies()[self.leader()].policy().frequency_at_insertion(ghost)
    }

    /// Whether the leader decides, and no other expert's candidates count.
    fn decides_alone(&self) -> bool {
        self.miniatures.is_some() || self.set.len() == 1
    }

    /// Lowers the weights of the experts that `ghost` names, unless they are learnt from
    /// miniatures. True if it is time to send the [`Self::penalties`].
    pub fn regret(&mut self, ghost: Ghost) -> bool {
        self.miniatures.is_none() && self.weights.regret(ghost)
    }

    /// Drains the penalties of the regrets since the last call, one word a policy. The caller adds
    /// each to the pool's word by FAA.
    pub fn penalties(&mut self) -> ArrayVec<u64, EXPERTS_MAX> {
        self.weights.penalties()
    }

    /// Replaces the weights by the pool's words, after the last [`Self::penalties`] were added.
    pub fn merged(&mut self, sums: &[u64]) {
        self.weights.merged(sums);
    }
}

#[cfg(test)]
mod tests;
