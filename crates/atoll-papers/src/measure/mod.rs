//! `atoll lab measure-network`: what a network costs, and the profile that gives the same.
//!
//! Clients post verbs to a region that is made for them and removed at the end. Over a fabric each
//! client is a thread of this process. A simulated network measures itself in virtual time: that is
//! the program's own test.
//!
//! | module | concept |
//! |---|---|
//! | `load` | clients that keep batches outstanding |
//! | `threads` | clients over a fabric |
//! | `simulated` | clients on a simulated network |
//! | `fit` | the profile that gives what was measured |

mod fit;
pub(crate) mod load;
pub(crate) mod simulated;
mod threads;

use crate::bench::networks;
use atoll::fabric::{OnFabric, ServedFabric, on_fabric};
use atoll_fabric::Kind;
use atoll_lab::interrupt::Interrupt;
use atoll_lab::{LabError, Progress, output};
use atoll_sim::network::Profile;
use atoll_sim::network::traffic::VerbKind;
use load::{Done, Load, Network, Window, Words};
use serde::Serialize;
use simulated::Simulated;
use std::fmt::Write;
use std::path::PathBuf;
use threads::Threads;

/// Bytes of the READs that show what the link carries.
const LARGE_BYTES: u64 = 64 << 10;
/// Verbs of a batch, where the cost of a batch is told from that of a verb.
const BATCH_VERBS: usize = 16;
/// Batches that a client has outstanding where its processor is measured: so many that it never
/// waits for the network.
const PROCESSOR_OUTSTANDING: u16 = 32;
const LATENCY_BYTES: [u64; 5] = [8, 256, 1024, 4096, LARGE_BYTES];
/// What a simulated load runs, in virtual time: longer than any queue of these clients.
const SIMULATED: Window = Window { warm_up_ns: 2_000_000, counted_ns: 2_000_000 };

/// Measure a network, and write it as a profile for `lab run` and `lab sweep`
///
/// The program makes a region at the address, posts verbs to it and removes it again. It refuses an
/// address that has a region.
#[derive(Clone, Debug, clap::Args)]
pub struct MeasureCommand {
    /// tcp:HOST:PORT or shm:/NAME; or sim:PROFILE, to see what a simulated network gives
    fabric: String,
    /// Write the profile into this TOML file
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// What the profile is called [default: measured]
    #[arg(long, default_value = "measured")]
    name: String,
    /// The known profile that says what cannot be measured [default: tcp-25g for tcp:, else
    /// cx6-100g]
    #[arg(long)]
    base: Option<String>,
    /// Clients at a time, several; the most of them measure the limits
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 32], value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: Vec<u16>,
    /// Batches that a client has outstanding, several; the most of them measure the limits
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8], value_parser = clap::value_parser!(u16).range(1..=64))]
    outstanding: Vec<u16>,
    /// Seconds of each measurement; a simulated network takes 2 ms of virtual time
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|seconds| (0.01..=60.0).contains(seconds)).ok_or("give 0.01 to 60 seconds".to_owned())
}

/// A median latency of one client with one verb outstanding.
#[derive(Clone, Debug, Serialize)]
struct Latency {
    verb: &'static str,
    bytes: u64,
    us: f64,
}

/// What clients did together.
#[derive(Clone, Debug, Serialize)]
struct Rate {
    verb: &'static str,
    /// `one` word for all clients, or words drawn at `random`.
    words: &'static str,
    clients: u16,
    outstanding: u16,
    mops: f64,
    p50_us: f64,
}

/// What a profile is made of, in nanoseconds. Where nothing else is said it is the time from one
/// verb to the next, of all clients together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Measured {
    read_ns: f64,
    /// The same in batches.
    batched_read_ns: f64,
    batch_verbs: usize,
    write_ns: f64,
    /// CAS on words of their own.
    swap_ns: f64,
    /// CAS on one word.
    swap_one_word_ns: f64,
    /// Of batches of some READs and a CAS.
    mixed_ns: f64,
    /// How many READs those have.
    mixed_reads: usize,
    /// READs of [`LARGE_BYTES`].
    large_read_ns: f64,
    /// Of one client, with single READs.
    client_ns: f64,
    /// Of one client, READs in batches.
    client_batched_ns: f64,
    read_latency_ns: f64,
    write_latency_ns: f64,
    large_read_latency_ns: f64,
}

/// All that was measured, and the profile.
#[derive(Debug, Serialize)]
struct Report {
    fabric: String,
    base: &'static str,
    latencies: Vec<Latency>,
    rates: Vec<Rate>,
    /// Processor time of a client for a READ that it posts alone, and for one of a batch.
    client_read_ns: f64,
    client_batched_read_ns: f64,
    profile: Profile,
    #[serde(skip)]
    toml: String,
}

fn name(verb: VerbKind) -> &'static str {
    match verb {
        VerbKind::Read => "READ",
        VerbKind::Write => "WRITE",
        VerbKind::CompareAndSwap => "CAS",
        VerbKind::FetchAndAdd => "FAA",
    }
}

impl MeasureCommand {
    /// Measures, writes the profile and prints the figures.
    ///
    /// # Errors
    /// If there is no such fabric or profile, the address has a region, or a verb fails.
    pub fn run(self) -> Result<(), LabError> {
        let named = |option: &str, name: &str| {
            networks::named(name).map_err(|what| LabError::Options(format!("{option} {name}: {what}")))
        };
        let base = self.base.clone().unwrap_or_else(|| {
            if self.fabric.starts_with("tcp:") { "tcp-25g".to_owned() } else { "cx6-100g".to_owned() }
        });
        let base = Profile::named(&base)
            .ok_or_else(|| LabError::Options(format!("--base {base}: give a profile that is known by name")))?;
        let report = match self.fabric.strip_prefix("sim:") {
            Some(profile) => {
                let profile = named("sim:", profile)?;
                self.measure(&mut Simulated { profile, memory: Kind::Host, window: SIMULATED }, base)?
            }
            None => on_fabric(&self.fabric, OverFabric { command: &self, base })??,
        };
        if let Some(path) = &self.output {
            std::fs::write(path, &report.toml)
                .map_err(|source| LabError::System { what: "write the profile", source })?;
        }
        output::print(self.json, &report, render);
        Ok(())
    }

    fn measure(&self, network: &mut impl Network, base: Profile) -> Result<Report, LabError> {
        let most = |values: &[u16]| values.iter().copied().max().unwrap_or(1);
        let (clients, outstanding) = (most(&self.clients), most(&self.outstanding));
        let steps = 2 * LATENCY_BYTES.len() + 2 + self.clients.len() * self.outstanding.len() + 9;
        let (progress, interrupt) = (Progress::new(steps as u64, "measurements"), Interrupt::new()?);
        let mut run = |load: &Load| -> Result<Done, LabError> {
            interrupt.check()?;
            let done = network.run(load)?;
            progress.advance(1);
            if done.batches == 0 {
                return Err(LabError::Failed("nothing ended in the time: give more --seconds".to_owned()));
            }
            Ok(done)
        };
        let mut latencies = Vec::new();
        let atomics = [(VerbKind::CompareAndSwap, 8), (VerbKind::FetchAndAdd, 8)];
        let sized = [VerbKind::Read, VerbKind::Write].map(|verb| LATENCY_BYTES.map(|bytes| (verb, bytes)));
        for (verb, bytes) in sized.into_iter().flatten().chain(atomics) {
            let us = run(&Load::one(verb, bytes))?.median_ns() / 1e3;
            latencies.push(Latency { verb: name(verb), bytes, us });
        }
        let latency_ns = |verb, bytes| {
            let found = latencies.iter().find(|it| it.verb == name(verb) && it.bytes == bytes);
            found.map_or(0.0, |it| it.us * 1e3)
        };
        let mut rates = Vec::new();
        let mut rate = |verb, words, clients, outstanding, done: &Done| {
            let words = if words == Words::One { "one" } else { "random" };
            let (mops, p50_us) = (1e3 / done.batch_ns(), done.median_ns() / 1e3);
            rates.push(Rate { verb: name(verb), words, clients, outstanding, mops, p50_us });
        };
        let mut measured = Measured { batch_verbs: BATCH_VERBS, ..Measured::default() };
        for clients in &self.clients {
            for outstanding in &self.outstanding {
                let one = Load::one(VerbKind::Read, 8);
                let done = run(&Load { clients: *clients, outstanding: *outstanding, ..one })?;
                rate(VerbKind::Read, Words::Random, *clients, *outstanding, &done);
            }
        }
        let all = |batch: &[VerbKind], bytes, words| Load { batch: batch.to_vec(), bytes, words, clients, outstanding };
        let read = [VerbKind::Read];
        measured.read_ns = run(&all(&read, 8, Words::Random))?.batch_ns();
        let batch = [VerbKind::Read; BATCH_VERBS];
        measured.batched_read_ns = run(&all(&batch, 8, Words::Random))?.batch_ns() / BATCH_VERBS as f64;
        for (verb, words, place) in [
            (VerbKind::Write, Words::Random, Some(&mut measured.write_ns)),
            (VerbKind::CompareAndSwap, Words::Random, Some(&mut measured.swap_ns)),
            (VerbKind::CompareAndSwap, Words::One, Some(&mut measured.swap_one_word_ns)),
            (VerbKind::FetchAndAdd, Words::One, None),
        ] {
            let done = run(&all(&[verb], 8, words))?;
            rate(verb, words, clients, outstanding, &done);
            if let Some(place) = place {
                *place = done.batch_ns();
            }
        }
        // So many READs that the engine is the limit, and not the unit of atomics.
        let swap_reads = (measured.swap_ns / measured.read_ns).ceil() as usize;
        measured.mixed_reads = (swap_reads + 1).clamp(2, BATCH_VERBS - 1);
        let mut mixed = vec![VerbKind::Read; measured.mixed_reads];
        mixed.push(VerbKind::CompareAndSwap);
        measured.mixed_ns = run(&all(&mixed, 8, Words::Random))?.batch_ns();
        measured.large_read_ns = run(&all(&read, LARGE_BYTES, Words::Random))?.batch_ns();
        let outstanding = PROCESSOR_OUTSTANDING.max(outstanding);
        let one_client = |batch: &[VerbKind]| Load { clients: 1, outstanding, ..all(batch, 8, Words::Random) };
        measured.client_ns = run(&one_client(&read))?.batch_ns();
        measured.client_batched_ns = run(&one_client(&batch))?.batch_ns() / BATCH_VERBS as f64;
        measured.read_latency_ns = latency_ns(VerbKind::Read, 8);
        measured.write_latency_ns = latency_ns(VerbKind::Write, 8);
        measured.large_read_latency_ns = latency_ns(VerbKind::Read, LARGE_BYTES);
        let profile = fit::fitted(&measured, &base);
        Ok(Report {
            fabric: self.fabric.clone(),
            base: base.name,
            latencies,
            rates,
            client_read_ns: measured.client_ns,
            client_batched_read_ns: measured.client_batched_ns,
            profile,
            toml: fit::toml(&self.name, base.name, &self.fabric, &profile),
        })
    }
}

struct OverFabric<'c> {
    command: &'c MeasureCommand,
    base: Profile,
}

impl OnFabric for OverFabric<'_> {
    type Output = Result<Report, LabError>;

    fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
        let counted_ns = (self.command.seconds * 1e9) as u64;
        let window = Window { warm_up_ns: counted_ns / 4, counted_ns };
        self.command.measure(&mut Threads::new(&fabric, window)?, self.base)
    }
}

fn render(report: &Report) -> String {
    let mut text = format!("{:<8}{:>8}{:>12}\n", "", "bytes", "P50, us");
    for Latency { verb, bytes, us } in &report.latencies {
        let _ = writeln!(text, "{verb:<8}{bytes:>8}{us:>12.3}");
    }
    let _ = writeln!(
        text,
        "\n{:<8}{:>8}{:>10}{:>13}{:>10}{:>12}",
        "", "words", "clients", "outstanding", "Mops", "P50, us"
    );
    for Rate { verb, words, clients, outstanding, mops, p50_us } in &report.rates {
        let _ = writeln!(text, "{verb:<8}{words:>8}{clients:>10}{outstanding:>13}{mops:>10.3}{p50_us:>12.3}");
    }
    let _ = writeln!(
        text,
        "\nA READ takes a client at most {:.0} ns of its processor, in a batch {:.0} ns.\n\n{}",
        report.client_read_ns, report.client_batched_read_ns, report.toml
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_sim::network::profiles::{CX3_56G, CX5_100G, CX6_100G, TCP_25G};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: MeasureCommand,
    }

    fn command(line: &str) -> MeasureCommand {
        Line::try_parse_from(format!("measure {line}").split_whitespace()).unwrap().command
    }

    fn measured(profile: Profile, base: Profile) -> Report {
        let few = command("sim:x --clients 1,32");
        few.measure(&mut Simulated { profile, memory: Kind::Host, window: SIMULATED }, base).unwrap()
    }

    fn near(what: &str, found: f64, wanted: f64, percent: f64) {
        let beside = (found / wanted - 1.0).abs() * 100.0;
        assert!(beside <= percent, "{what}: {found} for {wanted}, {beside:.1} % beside it");
    }

    #[test]
    fn what_was_measured_of_a_simulated_network_gives_its_profile_back() {
        for (profile, base) in [(CX5_100G, CX6_100G), (CX6_100G, CX5_100G), (CX3_56G, CX6_100G)] {
            let found = measured(profile, base).profile;
            let of = |profile: &Profile| {
                let Profile { serve, atomics_host, client, .. } = profile;
                [
                    ("READ", serve.read_ps),
                    ("WRITE", serve.write_ps),
                    // The slower of unit and engine is what shows.
                    ("CAS", atomics_host.gap_ps.max(serve.atomic_host_ps)),
                    ("turn", atomics_host.turn_ps),
                    // Of packets and headers the base knows, so that bytes of values are compared.
                    (
                        "link",
                        (LARGE_BYTES << 40) / profile.response_bytes(VerbKind::Read, LARGE_BYTES)
                            * (profile.link_bits_per_s >> 20),
                    ),
                    ("processor", client.batch_ps + client.verb_ps + client.completion_ps + client.switch_ps),
                ]
            };
            for ((what, found), (_, wanted)) in of(&found).into_iter().zip(of(&profile)) {
                near(&format!("{}, {what}", profile.name), found as f64, wanted as f64, 3.0);
            }
            near("atomic", found.serve.atomic_host_ps as f64, profile.serve.atomic_host_ps as f64, 10.0);
        }
    }

    #[test]
    fn the_written_profile_gives_the_same_measurements() {
        for (profile, base) in [(CX5_100G, CX6_100G), (TCP_25G, TCP_25G)] {
            let first = measured(profile, base);
            let written = Profile::of_toml(&first.toml).unwrap();
            assert_eq!(Profile { name: "", ..written }, Profile { name: "", ..first.profile });
            let again = measured(written, base);
            for (one, other) in first.latencies.iter().zip(&again.latencies) {
                near(&format!("{}, latency of {} of {}", profile.name, one.verb, one.bytes), other.us, one.us, 6.0);
            }
            for (one, other) in first.rates.iter().zip(&again.rates) {
                let what = format!("{}, {} of {} clients", profile.name, one.verb, one.clients);
                near(&what, other.mops, one.mops, 6.0);
            }
        }
    }

    #[test]
    fn an_address_that_has_a_region_is_refused_and_one_that_has_none_is_left_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        let line = format!("{} --clients 1 --outstanding 1 --seconds 0.1", path.display());
        command(&line).run().unwrap();
        assert!(!path.exists(), "the region was left behind");
        std::fs::write(&path, [1; 4096]).unwrap();
        let error = command(&line).run().unwrap_err().to_string();
        assert!(error.contains("has a region"), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn what_is_no_profile_or_fabric_is_an_error_that_says_so() {
        for (line, told) in
            [("sim:cx9", "neither a profile"), ("sim:cxl --base cx9", "known by name"), ("verbs:nowhere", "verbs")]
        {
            let error = command(line).run().unwrap_err().to_string();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
