use super::*;

/// Agents of every kind, some of which name a provider.
const ASKED: &str = "
=== agents
agents:
  - {name: P, runtime: {kind: scripted, replies: ['{}']}}
  - {name: A, system_message: a, runtime: {kind: openai, provider: local, model: small, max_output_tokens: 50}}
  - {name: B, system_message: b, runtime: {kind: openai, base_url: 'http://127.0.0.1:2/v1/', model: big, extra_body: {max_tokens: 9}}}
  - {name: C, system_message: c, runtime: {kind: openai, base_url: 'http://127.0.0.1:3/v1', model: m}}
  - {name: D, system_message: d}
  - {name: E, runtime: {kind: command, provider: local, argv: [x]}}
  - {name: F, system_message: f, runtime: {kind: openai, provider: local, base_url: 'http://127.0.0.1:4/v1', model: small}}
";

const BATCH: &str = "
=== task_batches
version: 1
conveyors:
  - {id: c, decomposition_agent: P, execution_agents: [A]}
";

/// Who is asked through which provider and endpoint, at most for how much, and with which key and price.
fn ways(workflow: &Workflow) -> String {
    let lines = workflow.agents.values().map(|it| {
        let name = it.provider.as_deref();
        let (url, key) = match &it.runtime {
            Runtime::Openai {
                base_url,
                api_key_env,
                ..
            } => (base_url.as_deref(), api_key_env.as_deref()),
            _ => (None, None),
        };
        let provider = name.and_then(|name| workflow.providers.get(name));
        let price = provider.and_then(|provider| provider.price(it.model()));
        let price = price.map(|it| (it.input, it.cached_input, it.output));
        format!(
            "{}: {} {} {} {:?} {price:?}\n",
            it.name,
            name.unwrap_or("-"),
            url.unwrap_or("-"),
            key.unwrap_or("-"),
            it.max_output_tokens(),
        )
    });
    lines.collect()
}

#[test]
fn an_agent_names_its_provider_or_has_its_endpoint() {
    let orchestrator = "
=== orchestrator
initial_agent: P
providers:
  local: {base_url: 'http://127.0.0.1:1/v1', api_key_env: LOCAL_KEY, max_concurrency: 3, prices: {small: {input: 1, output: 2.5}}}
=== providers
providers:
  local: {base_url: 'http://127.0.0.1:9/v1'}
  'http://127.0.0.1:2/v1': {prices: {'*': {input: 0.5, output: 1, cached_input: 0}}}
";
    check(
        &format!("{ASKED}{BATCH}{orchestrator}"),
        ways,
        expect![[r#"
            A: local http://127.0.0.1:1/v1 LOCAL_KEY Some(50) Some((1.0, 1.0, 2.5))
            B: http://127.0.0.1:2/v1 http://127.0.0.1:2/v1/ - Some(9) Some((0.5, 0.0, 1.0))
            C: http://127.0.0.1:3/v1 http://127.0.0.1:3/v1 - None None
            D: openai - - None None
            E: local - - None None
            F: local http://127.0.0.1:4/v1 - None Some((1.0, 1.0, 2.5))
            P: - - - None None
        "#]],
    );
}

#[test]
fn a_provider_has_to_be_there() {
    let orchestrator = "
=== orchestrator
initial_agent: P
defaults: {runtime: {kind: openai, provider: lokal}}
=== providers
providers:
  locale: {max_concurrency: 3}
";
    check(
        &format!("{ASKED}{BATCH}{orchestrator}"),
        nothing,
        expect![[r#"
            error MZ320 agents:3:68 no file defines a provider `local` (locale?)
            error MZ320 agents:7:50 no file defines a provider `local` (locale?)
            error MZ320 agents:8:68 no file defines a provider `local` (locale?)
            error MZ320 orchestrator:2:46 no file defines a provider `lokal` (locale?)
        "#]],
    );
}

#[test]
fn a_budget_in_money_needs_prices() {
    let orchestrator = "
=== orchestrator
initial_agent: P
budget: {cost: 1.5}
providers:
  local: {prices: {small: {input: 1, output: 2.5}}}
";
    check(
        &format!("{ASKED}{BATCH}{orchestrator}"),
        nothing,
        expect![[r#"
            error MZ321 agents:4:12 there is a budget in money, but the model `big` of `B` has no price
            error MZ321 agents:5:12 there is a budget in money, but the model `m` of `C` has no price
            error MZ321 agents:6:12 there is a budget in money, but `D` names no model that could have a price
            error MZ321 agents:7:12 there is a budget in money, but `E` names no model that could have a price
        "#]],
    );
    // That of a batch, the prices of those who may work in it.
    let of_batch = "
=== task_batches
version: 1
conveyors:
  - {id: c, decomposition_agent: P, execution_agents: [A, B], budget: {cost: 2, tokens: 100}}
=== providers
providers:
  local: {prices: {'*': {input: 1, output: 2.5}}}
";
    check(
        &format!("{ASKED}{of_batch}"),
        nothing,
        expect![[r#"
        error MZ321 agents:4:12 there is a budget in money, but the model `big` of `B` has no price
    "#]],
    );
}
