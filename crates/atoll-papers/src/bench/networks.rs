//! The networks of an experiment other than its paper's: one of the user's own, or its paper's with
//! one assumed constant changed.

use atoll_sim::network::Profile;
use atoll_sim::network::profile::{AtomicTimes, EngineTimes};

/// A constant of the profiles that no paper prints: see [`profiles`](atoll_sim::network::profiles).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// What doorbells, work requests, completions and switches between operations cost the client's
    /// processor.
    ClientProcessor,
    /// From the doorbell to the NIC, and from the NIC to the client.
    DoorbellAndCompletion,
    /// The way through pipelines and cables.
    Wire,
    /// From a NIC to its host's memory and back.
    HostMemory,
    /// From the beginning of an atomic on host memory until the next on its word can begin.
    AtomicTurn,
    /// The same on the NIC's own memory.
    DeviceAtomicTurn,
    /// For how long an atomic on host memory holds the engine for incoming verbs.
    AtomicHold,
    /// The engine for what a NIC sends off.
    Issue,
}

impl Constant {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ClientProcessor,
        Self::DoorbellAndCompletion,
        Self::Wire,
        Self::HostMemory,
        Self::AtomicTurn,
        Self::DeviceAtomicTurn,
        Self::AtomicHold,
        Self::Issue,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientProcessor => "client's processor",
            Self::DoorbellAndCompletion => "doorbell and completion",
            Self::Wire => "wire",
            Self::HostMemory => "host memory over PCIe",
            Self::AtomicTurn => "turn of atomics on a word",
            Self::DeviceAtomicTurn => "the same on the NIC",
            Self::AtomicHold => "engine time of an atomic",
            Self::Issue => "engine for sending",
        }
    }

    /// The profile with this constant at half or at twice of what it is. A turn never falls below
    /// the gap between two atomics.
    pub fn scaled(self, mut profile: Profile, scale: Scale) -> Profile {
        let by = |ps: &mut u64| *ps = scale.of(*ps);
        let turn = |times: &mut AtomicTimes| times.turn_ps = scale.of(times.turn_ps).max(times.gap_ps);
        match self {
            Self::ClientProcessor => {
                let client = &mut profile.client;
                let times = [&mut client.batch_ps, &mut client.verb_ps, &mut client.completion_ps];
                times.into_iter().chain([&mut client.switch_ps]).for_each(by);
            }
            Self::DoorbellAndCompletion => {
                [&mut profile.doorbell_ps, &mut profile.completion_ps].into_iter().for_each(by);
            }
            Self::Wire => by(&mut profile.wire_ps),
            Self::HostMemory => by(&mut profile.host_read_ps),
            Self::AtomicTurn => turn(&mut profile.atomics_host),
            Self::DeviceAtomicTurn => turn(&mut profile.atomics_device),
            Self::AtomicHold => by(&mut profile.serve.atomic_host_ps),
            Self::Issue => {
                let EngineTimes { read_ps, write_ps, atomic_host_ps, atomic_device_ps } = &mut profile.issue;
                [read_ps, write_ps, atomic_host_ps, atomic_device_ps].into_iter().for_each(by);
            }
        }
        profile
    }
}

/// By how much a constant is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Half.
    Half,
    /// Twice.
    Twice,
}

impl Scale {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Half, Self::Twice];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Twice => "twice",
        }
    }

    fn of(self, ps: u64) -> u64 {
        match self {
            Self::Half => ps / 2,
            Self::Twice => ps * 2,
        }
    }
}

/// What experiments run on instead of their papers' networks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Networks {
    /// This profile in place of every paper's.
    pub instead: Option<Profile>,
    /// This constant changed.
    pub changed: Option<(Constant, Scale)>,
}

impl Networks {
    /// The profile in place of a paper's.
    pub fn profile(&self, own: Profile) -> Profile {
        let profile = self.instead.unwrap_or(own);
        self.changed.map_or(profile, |(constant, scale)| constant.scaled(profile, scale))
    }
}

/// The profile that a user names: one that is known, or a TOML file.
///
/// # Errors
/// If there is neither, or the file is no profile.
pub fn named(name: &str) -> Result<Profile, String> {
    if let Some(profile) = Profile::named(name) {
        return Ok(profile);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("neither a profile that is known by name nor a file: {error}"))?;
    Profile::of_toml(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_sim::network::profiles::CX5_100G;

    #[test]
    fn each_constant_changes_the_profile_and_none_a_printed_rate() {
        for constant in Constant::ALL {
            for scale in Scale::ALL {
                let networks = Networks { instead: None, changed: Some((constant, scale)) };
                let profile = networks.profile(CX5_100G);
                assert_ne!(profile, CX5_100G, "{constant:?}");
                let printed =
                    |profile: &Profile| (profile.serve.read_ps, profile.serve.write_ps, profile.atomics_host.gap_ps);
                assert_eq!(printed(&profile), printed(&CX5_100G), "{constant:?}");
            }
        }
    }
}
