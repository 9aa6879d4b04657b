//! FORGE, Fig. 2: what verbs one NIC serves, and how much atomics slow READs down.

use crate::bench::measured::run_all;
use crate::bench::{Findings, Options};
use crate::validation::load::{self, ADD, Clients, RandomVerb, only, read, swap, write};
use atoll_fabric::Kind;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_sim::network::traffic::VerbKind;
use atoll_sim::network::{CpuCosts, profiles};

/// FORGE, section 6.1.
const COMPUTE_NODES: u16 = 3;
const CLIENTS: [u16; 6] = [4, 16, 64, 128, 256, 512];

/// The verbs, and what section 5.2 and Fig. 2a print of each in Mops: the profile is made from
/// these, so that they stand as a line and are not judged.
const VERBS: [(&str, RandomVerb, Option<f64>); 6] = [
    ("READ", read(8), Some(88.0)),
    ("WRITE", write(8), Some(107.0)),
    ("CAS", swap(Kind::Host), Some(20.0)),
    ("FAA", ADD, Some(20.0)),
    ("CAS on the NIC", swap(Kind::Device), None),
    ("READ of the NIC", RandomVerb { kind: VerbKind::Read, bytes: 8, memory: Kind::Device }, None),
];

/// Section 2.2: how much less READs fall beside atomics on the NIC's own memory. Its least and
/// most.
const LESS: (f64, f64) = (2.4, 3.0);

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(CLIENTS.to_vec(), vec![4, 64]);
    let profile = options.profile(profiles::CX5_100G);
    let points: Vec<(RandomVerb, u16)> =
        VERBS.iter().flat_map(|(_, verb, _)| clients.iter().map(move |clients| (*verb, *clients))).collect();
    let alone = |(verb, count): &(RandomVerb, u16)| {
        let clients = Clients { count: *count, operations: only(&[*verb]) };
        Ok(load::reached(profile, CpuCosts::measured(), COMPUTE_NODES, &[clients]).verb_mops(verb.kind))
    };
    let (mops, _) = run_all(&points, options.workers, |(_, clients)| u64::from(*clients), alone)?;
    let most = *clients.last().expect("there are clients");
    let beside = |memory: &Kind| {
        let clients =
            [only(&[read(8)]), only(&[swap(*memory)])].map(|operations| Clients { count: most / 2, operations });
        Ok(load::reached(profile, CpuCosts::measured(), COMPUTE_NODES, &clients).verb_mops(VerbKind::Read))
    };
    let (beside, _) = run_all(&[Kind::Host, Kind::Device], options.workers, |_| u64::from(most), beside)?;
    let reads = mops[clients.len() - 1];
    let places = Places::numbers("clients", "", clients.iter().copied()).logarithmic();
    let lines =
        VERBS.iter().zip(mops.chunks(clients.len())).map(|((name, ..), mops)| places.line(*name, mops.iter().copied()));
    let verbs = Places::named("verb", VERBS.map(|(name, ..)| name));
    let at_most = verbs.line("simulated", mops.chunks(clients.len()).map(|line| line[line.len() - 1]));
    let mut printed =
        verbs.line("printed, and used for the profile", VERBS.map(|(_, _, mops)| mops.unwrap_or_default()));
    printed.points.retain(|point| point.y > 0.0);
    let reading = Places::named("READs", ["alone", "beside CAS", "beside CAS on the NIC"]);
    let less = Places::named("", ["READs beside CAS on the NIC over those beside CAS"]);
    let factor = beside[1] / beside[0].max(1e-9);
    let nearest = factor.clamp(LESS.0, LESS.1);
    Ok(Findings {
        what: format!(
            "Clients of {COMPUTE_NODES} compute nodes post one verb of eight bytes after the other to random places of one memory node. Beside each other {} clients READ and as many swap. \
             The paper also has local memory, which is not simulated. Of what it prints, all but the fall of READs beside atomics on the NIC was used for the profile: see atoll lab validate.",
            most / 2,
        ),
        figures: vec![
            places.figure("Verbs alone", ("rate", "Mops/s"), lines),
            verbs.figure("Verbs at the most clients", ("rate", "Mops/s"), [at_most, printed]),
            reading.figure(
                "READs beside atomics",
                ("rate", "Mops/s"),
                [reading.line("READ", [reads, beside[0], beside[1]])],
            ),
            less.factors(
                "How much less READs fall",
                "times less",
                [less.line("fall", [factor]).beside([(!options.quick).then_some(nearest)])],
            )
            .from("FORGE, section 2.2: 2.4 to 3.0"),
        ],
    })
}
