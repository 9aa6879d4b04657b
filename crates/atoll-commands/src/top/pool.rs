//! What any process can see of a pool: memory, objects, clients, memory nodes.

use super::{Look, percent};
use crate::open_pool;
use crate::pool::shown_node;
use atoll::fabric::{OnFabric, ServedFabric, on_fabric};
use atoll::{Pool, PoolInfo};
use bytesize::ByteSize;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

/// Looks at a pool until `show` wants no further look.
pub(super) fn watch(name: &str, show: &mut dyn FnMut(Look) -> Option<()>) -> Result<(), Box<dyn Error>> {
    struct Watch<'a>(&'a str, &'a mut dyn FnMut(Look) -> Option<()>);

    impl OnFabric for Watch<'_> {
        type Output = Result<(), Box<dyn Error>>;

        fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
            let pool = open_pool(&fabric)?;
            while self.1(look(self.0, &pool)?).is_some() {}
            Ok(())
        }
    }

    on_fabric(name, Watch(name, show))?
}

fn look<F: ServedFabric>(name: &str, pool: &Pool<F>) -> Result<Look, Box<dyn Error>> {
    let info = pool.info()?;
    let used = pool.used_bytes().min(info.capacity_bytes);
    let mut states: BTreeMap<String, u64> = BTreeMap::new();
    for client in &info.clients {
        *states.entry(client.state.to_string()).or_default() += 1;
    }
    let json = json!({
        "target": name, "fabric": pool.fabric(), "engine": pool.engine().to_string(), "used_bytes": used,
        "capacity_bytes": info.capacity_bytes, "provided_bytes": info.provided_bytes, "objects": info.objects,
        "hits": info.hits, "misses": info.misses, "hit_ratio": info.hit_ratio(),
        "clients": info.clients.len(), "clients_by_state": states, "quarantined_bytes": info.quarantined_bytes,
        "nodes": info.nodes.iter().map(shown_node).collect::<Vec<_>>(),
    });
    let text = text(name, (pool.fabric(), &pool.engine().to_string()), used, &info, &states)?;
    Ok(Look { text, json })
}

fn text(
    name: &str,
    (fabric, engine): (&str, &str),
    used: u64,
    info: &PoolInfo,
    states: &BTreeMap<String, u64>,
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "pool        {name}, fabric {fabric}, engine {engine}")?;
    let (capacity, objects) = (info.capacity_bytes, info.objects);
    let share = percent(used as f64, capacity as f64);
    writeln!(
        text,
        "memory      {} of {} in use ({share:.0} %), {objects} objects",
        ByteSize(used),
        ByteSize(capacity)
    )?;
    if let Some(ratio) = info.hit_ratio() {
        writeln!(text, "hit ratio   {:.1} % since the pool was made", 100.0 * ratio)?;
    }
    let states: Vec<String> = states.iter().map(|(state, clients)| format!("{clients} {state}")).collect();
    writeln!(text, "clients     {}: {}", info.clients.len(), states.join(", "))?;
    for node in &info.nodes {
        let region = node.region.as_deref().unwrap_or("of this process");
        match node.is_absent {
            true => writeln!(text, "node {:<6} {region}: absent, its keys miss", node.number)?,
            false => writeln!(
                text,
                "node {:<6} {region}: {}, {} of {} chunks free",
                node.number,
                ByteSize(node.bytes),
                node.chunks_free,
                node.chunks
            )?,
        }
    }
    Ok(text)
}
