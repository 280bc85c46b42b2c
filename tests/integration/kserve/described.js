// node described.js PORT: asks rknnd-kserve everything that the public descriptions of the Open Inference Protocol (REST) and of
// Triton's extensions (binary_tensor_data, model_repository, model_configuration, statistics) name, and holds each member of each
// answer to tables written from them. Knows nothing of the server beside the models that test_kserve_described.py gives it. Each line of
// standard output is a difference; the last is the number of checks.
'use strict';
const http = require('http');

const PORT = Number(process.argv[2]);
const HEADER = 'inference-header-content-length';
const agent = new http.Agent({keepAlive: true, maxSockets: 1});
let checks = 0;

function check(what, good, got) {
    checks++;
    if (!good) console.log(`${what}: ${JSON.stringify(got)}`);
}

// ---- the descriptions' tables -------------------------------------------------------------------
// A member that ends in "?" is optional. An array has elements of one kind.
const STRING = v => typeof v === 'string';
const NAME = v => STRING(v) && v !== '';
const BOOLEAN = v => typeof v === 'boolean';
const COUNT = v => Number.isSafeInteger(v) && v >= 0;
const DIMENSION = v => Number.isSafeInteger(v) && v >= -1;
const SIZES = {BOOL: 1, UINT8: 1, UINT16: 2, UINT32: 4, UINT64: 8, INT8: 1, INT16: 2, INT32: 4, INT64: 8, FP16: 2, FP32: 4, FP64: 8};
const DATATYPE = v => v in SIZES || v === 'BYTES';

const TENSOR = {name: NAME, datatype: DATATYPE, shape: [DIMENSION]};
const DURATION = {count: COUNT, ns: COUNT};
const COMPUTE = {compute_input: DURATION, compute_infer: DURATION, compute_output: DURATION};
const CONFIG_TENSOR = {name: NAME, data_type: v => v.startsWith('TYPE_') && v.slice(5) in SIZES, dims: [DIMENSION]};
const FORMAT = v => ['FORMAT_NONE', 'FORMAT_NHWC', 'FORMAT_NCHW'].includes(v);
const TABLES = {
    error: {error: NAME},
    live: {live: BOOLEAN},
    ready: {live: BOOLEAN, 'ready?': BOOLEAN},
    server: {name: NAME, version: NAME, extensions: [NAME]},
    modelReady: {name: NAME, ready: BOOLEAN},
    model: {name: NAME, 'versions?': [NAME], platform: NAME, inputs: [TENSOR], outputs: [TENSOR]},
    config: {name: NAME, platform: NAME, backend: NAME, max_batch_size: COUNT, input: [{...CONFIG_TENSOR, 'format?': FORMAT}], output: [CONFIG_TENSOR],
             'dynamic_batching?': {'max_queue_delay_microseconds?': COUNT}},
    answer: {model_name: NAME, 'model_version?': NAME, 'id?': STRING, 'parameters?': {}, outputs: [
        {name: NAME, shape: [COUNT], datatype: DATATYPE, 'parameters?': {'binary_data_size?': COUNT}, 'data?': [() => true]}]},
    index: [{name: NAME, 'version?': NAME, state: v => ['READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING'].includes(v), reason: STRING}],
    stats: {model_stats: [{name: NAME, 'version?': NAME, last_inference: COUNT, inference_count: COUNT, execution_count: COUNT,
        inference_stats: {success: DURATION, fail: DURATION, queue: DURATION, ...COMPUTE, cache_hit: DURATION, 'cache_miss?': DURATION},
        batch_stats: [{batch_size: COUNT, ...COMPUTE}]}]},
};

function judge(where, value, table) {
    if (typeof table === 'function') return check(`${where} is not what the description says`, table(value), value);
    if (Array.isArray(table)) {
        check(`${where} is no array`, Array.isArray(value), value);
        return Array.isArray(value) && value.forEach((v, i) => judge(`${where}[${i}]`, v, table[0]));
    }
    const isObject = value !== null && typeof value === 'object' && !Array.isArray(value);
    check(`${where} is no object`, isObject, value);
    if (!isObject) return;
    const known = Object.keys(table).map(key => key.replace('?', ''));
    for (const key of Object.keys(value)) check(`${where}.${key} is not described`, known.includes(key), value[key]);
    for (const [key, inner] of Object.entries(table)) {
        const name = key.replace('?', '');
        if (name in value) judge(`${where}.${name}`, value[name], inner);
        else check(`${where}.${name} is missing`, key.endsWith('?'), value);
    }
}

// ---- asking -------------------------------------------------------------------------------------

function ask(method, path, body, headers = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request({port: PORT, host: '127.0.0.1', method, path, headers, agent}, answer => {
            const pieces = [];
            answer.on('data', piece => pieces.push(piece));
            answer.on('end', () => resolve({status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces)}));
        });
        request.on('error', reject);
        request.end(body);
    });
}

// The JSON of an answer of that status, held to a table; undefined where it is none.
async function asked(method, path, status, table, body, headers) {
    const where = `${method} ${path}`;
    const answer = await ask(method, path, body, headers);
    check(`${where}: status ${status} expected`, answer.status === status, answer.status);
    check(`${where}: Content-Length`, Number(answer.headers['content-length']) === answer.body.length, answer.headers);
    if (!table) return check(`${where}: no body`, answer.body.length === 0, String(answer.body));
    check(`${where}: Content-Type`, answer.headers['content-type'] === 'application/json', answer.headers['content-type']);
    let json;
    try {
        json = JSON.parse(answer.body);
    } catch (e) {
        return check(`${where}: JSON`, false, String(answer.body).slice(0, 200));
    }
    judge(where, json, TABLES[table]);
    return json;
}

const volume = shape => shape.reduce((n, d) => n * d, 1);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Elements of a type that are not all alike, as JSON and as little-endian bytes.
function elements(type, n) {
    const values = Array.from({length: n}, (_, i) => type === 'BOOL' ? i % 3 === 0 : type[0] === 'U' ? i * 7 % 251 :
        type === 'FP32' ? (i - 3) * 0.25 : type === 'FP16' ? i : (i % 2 ? -1 : 1) * (i * 5 % 121));
    const bytes = Buffer.alloc(n * SIZES[type]);
    values.forEach((v, i) => {
        const at = i * SIZES[type];
        if (type === 'BOOL') bytes[at] = v ? 1 : 0;
        else if (type === 'FP32') bytes.writeFloatLE(v, at);
        else if (type === 'FP16') bytes.writeUInt16LE(v === 0 ? 0 : half(v), at);
        else if (SIZES[type] === 8) bytes.writeBigInt64LE(BigInt(v), at);
        else if (type[0] === 'U') bytes.writeUIntLE(v, at, SIZES[type]);
        else bytes.writeIntLE(v, at, SIZES[type]);
    });
    return {values, bytes};
}

// A whole number from 1 to 2047, as 16 bits.
function half(v) {
    const exponent = 31 - Math.clz32(v);
    return ((exponent + 15) << 10) | (v * 2 ** (10 - exponent) & 1023);
}

const nested = (values, shape) => shape.length < 2 ? values :
    Array.from({length: shape[0]}, (_, i) => nested(values.slice(i * values.length / shape[0], (i + 1) * values.length / shape[0]), shape.slice(1)));

// An inference; its answer's JSON and the bytes of each output that has some.
async function infer(path, json, tail, status = 200) {
    const text = Buffer.from(JSON.stringify(json));
    const where = `POST ${path} ${JSON.stringify(json).slice(0, 160)}`;
    const headers = {'Content-Type': tail ? 'application/octet-stream' : 'application/json'};
    if (tail) headers[HEADER] = String(text.length);
    const answer = await ask('POST', path, tail ? Buffer.concat([text, tail]) : text, headers);
    check(`${where}: status ${status} expected`, answer.status === status, String(answer.body).slice(0, 300));
    if (answer.status !== status) return {};
    const length = Number(answer.headers[HEADER] || answer.body.length);
    const got = JSON.parse(answer.body.subarray(0, length));
    judge(where, got, TABLES[status === 200 ? 'answer' : 'error']);
    if (status !== 200) return got;
    const binary = got.outputs.filter(o => o.parameters && 'binary_data_size' in o.parameters);
    check(`${where}: the length of the JSON where there are bytes, and only there`, (binary.length > 0) === (HEADER in answer.headers), answer.headers);
    check(`${where}: Content-Type`, answer.headers['content-type'] === (binary.length ? 'application/octet-stream' : 'application/json'), answer.headers);
    let at = length;
    for (const output of got.outputs) {
        const size = output.parameters?.binary_data_size;
        check(`${where}: either data or bytes`, ('data' in output) === (size === undefined), output);
        if (size !== undefined) output.bytes = answer.body.subarray(at, at += size);
        check(`${where}: as much as the shape says`, size === undefined ? output.data.flat(9).length === volume(output.shape) :
            size === volume(output.shape) * SIZES[output.datatype], output);
    }
    check(`${where}: all bytes belong to outputs`, at === answer.body.length, answer.body.length - at);
    return {...got, where};
}

// ---- endpoints ----------------------------------------------------------------------------------

async function checkServer() {
    for (const path of ['/v2', '/v2/']) {
        const server = await asked('GET', path, 200, 'server');
        for (const extension of ['binary_tensor_data', 'model_repository', 'model_configuration', 'statistics'])
            check(`extension ${extension}`, server?.extensions?.includes(extension), server);
    }
    check('live', (await asked('GET', '/v2/health/live', 200, 'live'))?.live === true);
    check('ready', (await asked('GET', '/v2/health/ready', 200, 'ready'))?.live === true);
    await asked('GET', '/v2/nothing', 404, 'error');
    await asked('POST', '/v2', 405, 'error');
}

async function checkMetadata() {
    for (const [name, type] of [['of_fp32', 'FP32'], ['of_uint8', 'UINT8'], ['of_int64', 'INT64'], ['of_bool', 'BOOL']])
        for (const version of ['', '/versions/1']) {
            const model = await asked('GET', `/v2/models/${name}${version}`, 200, 'model');
            const ready = await asked('GET', `/v2/models/${name}${version}/ready`, 200, 'modelReady');
            const config = await asked('GET', `/v2/models/${name}${version}/config`, 200, 'config');
            check(`${name}: names`, [model, ready, config].every(o => o?.name === name), [model, ready, config]);
            check(`${name}: ready`, ready?.ready === true, ready);
            check(`${name}: versions`, same(model?.versions, ['1']), model);
            for (const [ends, other] of [[model?.inputs, config?.input], [model?.outputs, config?.output]]) {
                check(`${name}: datatypes`, ends?.every(t => t.datatype === type), ends);
                check(`${name}: the same in the configuration`, same(ends?.map(t => [t.name, `TYPE_${t.datatype}`]), other?.map(t => [t.name, t.data_type])), other);
                check(`${name}: samples are -1 here and not there`, ends?.every((t, i) => !config.max_batch_size ? same(t.shape, other[i].dims) :
                    t.shape[0] === -1 && same(t.shape.slice(1), other[i].dims)), [ends, other]);
            }
        }
    const strange = 'a b ä%2';
    const model = await asked('GET', `/v2/models/${encodeURIComponent(strange)}`, 200, 'model');
    check('a name that an address cannot have as it is', model?.name === strange, model);
    for (const path of ['of_fp32%00', 'of_fp32%00/stats', '%00', 'of_fp32/ready%00x', '', '/of_fp32', 'of_fp32/', 'nothing', 'of_fp32/versions/7', 'nothing/config', 'nothing/stats', 'of_fp32/versions/x'])
        await asked('GET', `/v2/models/${path}`, 404, 'error');
    for (const name of ['nothing', 'bad', 'of_fp32%00'])
        check(`${name} is not ready`, (await asked('GET', `/v2/models/${name}/ready`, 400, 'modelReady'))?.ready === false);
}

async function checkInferences(name, type) {
    const shape = [2, 3, 4], {values, bytes} = elements(type, 24);
    const out = type === 'FP16' ? 'FP32' : type; // as the manual says
    const wanted = out === type ? bytes : elements('FP32', 0) && Buffer.from(Float32Array.from(values).buffer);
    const tensor = {name: 'x0', shape, datatype: type};
    const binaryInput = {...tensor, parameters: {binary_data_size: bytes.length}};
    const requests = [[{inputs: [binaryInput]}, bytes], [{inputs: [binaryInput], id: '', model_name: name}, bytes]];
    if (type !== 'FP16') // which has no JSON
        requests.push([{inputs: [{...tensor, data: values}]}], [{inputs: [{...tensor, data: nested(values, shape)}], id: 'ä 42'}]);
    const outputs = [[undefined, false], [{outputs: [{name: 'y0'}]}, false], [{outputs: [{name: 'y0', parameters: {binary_data: true}}]}, true],
        [{parameters: {binary_data_output: true}}, true], [{parameters: {binary_data_output: false}}, false],
        [{parameters: {binary_data_output: true}, outputs: [{name: 'y0', parameters: {binary_data: false}}]}, false]];
    for (const [request, tail] of requests)
        for (const [more, binary] of outputs)
            for (const version of ['', '/versions/1']) {
                const got = await infer(`/v2/models/${name}${version}/infer`, {...request, ...more}, tail);
                const y = got.outputs?.[0];
                check(`${got.where}: model`, got.model_name === name && got.model_version === '1', got);
                check(`${got.where}: id`, got.id === request.id, got.id);
                check(`${got.where}: what it is`, got.outputs?.length === 1 && y.name === 'y0' && y.datatype === out && same(y.shape, shape), got);
                if (binary) check(`${got.where}: bytes`, y?.bytes?.equals(wanted), y);
                else check(`${got.where}: data`, same(y?.data?.flat(9), values), y);
            }
}

async function checkTwo() { // bytes of some tensors only, in the order of the JSON
    const a = elements('FP32', 24), path = '/v2/models/two/infer';
    const b = {values: a.values.map(v => v * 2)};
    b.bytes = Buffer.from(Float32Array.from(b.values).buffer);
    const x = (i, more) => ({name: `x${i}`, shape: [2, 3, 4], datatype: 'FP32', ...more});
    const size = {parameters: {binary_data_size: 96}};
    const got = await infer(path, {inputs: [x(1, size), x(0, size)], outputs: [{name: 'y1', parameters: {binary_data: true}}, {name: 'y0'}]},
                            Buffer.concat([b.bytes, a.bytes]));
    check('two: the order that was asked for', same(got.outputs?.map(o => o.name), ['y1', 'y0']), got.outputs);
    check('two: bytes and data', got.outputs?.[0].bytes?.equals(b.bytes) && same(got.outputs[1].data.flat(9), a.values), got.outputs);
    const mixed = await infer(path, {inputs: [x(0, {data: a.values}), x(1, size)], parameters: {binary_data_output: true}}, b.bytes);
    check('two: mixed', mixed.outputs?.[0].bytes?.equals(a.bytes) && mixed.outputs[1].bytes.equals(b.bytes), mixed);
}

async function checkRefused() {
    const path = '/v2/models/of_fp32/infer', good = {name: 'x0', shape: [2, 3, 4], datatype: 'FP32', data: elements('FP32', 24).values};
    const without = key => Object.fromEntries(Object.entries(good).filter(([k]) => k !== key));
    for (const request of [{}, {inputs: []}, {inputs: [without('name')]}, {inputs: [without('shape')]}, {inputs: [without('datatype')]},
        {inputs: [without('data')]}, {inputs: [{...good, data: [1]}]}, {inputs: [{...good, datatype: 'FP31'}]}, {inputs: [{...good, datatype: 'fp32'}]},
        {inputs: [{...good, shape: [2, 3, -4]}]}, {inputs: [good], outputs: [{name: 'Y0'}]}, {inputs: [good], id: 42},
        {inputs: [good], model_name: 'of_uint8'}, {inputs: [good], model_version: '2'}, {inputs: [{...good, parameters: {binary_data_size: 96}}]}])
        await infer(path, request, undefined, 400);
    await infer('/v2/models/nothing/infer', {inputs: [good]}, undefined, 404);
    await infer('/v2/models/of_fp32/versions/2/infer', {inputs: [good]}, undefined, 404);
}

async function checkRepository() {
    const index = async body => asked('POST', '/v2/repository/index', 200, 'index', body);
    const state = (list, name) => list?.find(m => m.name === name)?.state;
    for (const body of ['', '{}', '{"ready": false}']) check('all are listed', state(await index(body), 'bad') === 'UNAVAILABLE');
    const ready = await index('{"ready": true}');
    check('only those that are ready', ready?.length > 0 && ready.every(m => m.state === 'READY'), ready);
    for (const parameters of [undefined, '{}', '{"parameters": {}}', '{"parameters": {"unload_dependents": true}}']) {
        await asked('POST', '/v2/repository/models/two/unload', 200, null, parameters);
        check('unloaded', state(await index(), 'two') === 'UNAVAILABLE', await index());
        check('not ready', (await asked('GET', '/v2/models/two/ready', 400, 'modelReady'))?.ready === false);
        await asked('POST', '/v2/repository/models/two/load', 200, null, parameters === undefined || parameters === '{}' ? parameters : '{"parameters": {}}');
        check('loaded', state(await index(), 'two') === 'READY');
    }
    for (const [name, verb] of [['nothing', 'load'], ['nothing', 'unload'], ['bad', 'load']])
        await asked('POST', `/v2/repository/models/${name}/${verb}`, 400, 'error');
    await asked('POST', '/v2/repository/models/two/load', 400, 'error', '{"parameters": {"config": "{}"}}'); // not offered, and said
}

async function checkStatistics() {
    const stats = async path => asked('GET', `/v2/models${path}/stats`, 200, 'stats');
    const of = s => s?.model_stats?.[0];
    const before = of(await stats('/of_uint8'));
    const request = {inputs: [{name: 'x0', shape: [2, 3, 4], datatype: 'UINT8', data: elements('UINT8', 24).values}]};
    await infer('/v2/models/of_uint8/infer', request);
    await infer('/v2/models/of_uint8/infer', {inputs: [{...request.inputs[0], shape: [2, 3, 5]}]}, undefined, 400);
    const after = of(await stats('/of_uint8/versions/1'));
    const more = get => get(after) - get(before);
    check('a success', more(s => s.inference_stats.success.count) === 1 && more(s => s.inference_stats.success.ns) > 0, after);
    check('a failure', more(s => s.inference_stats.fail.count) === 1, after);
    check('executions', more(s => s.execution_count) >= 1 && after.inference_stats.compute_infer.ns > 0, after);
    check('milliseconds since 1970', Math.abs(after.last_inference - Date.now()) < 600e3, after.last_inference);
    const all = await stats('');
    check('all that are loaded', ['of_bool', 'of_fp32', 'two'].every(name => all?.model_stats.some(s => s.name === name)), all);
}

async function main() {
    await checkServer();
    await checkMetadata();
    for (const type of ['FP32', 'UINT8', 'INT8', 'INT32', 'INT64', 'BOOL', 'FP16']) await checkInferences(`of_${type.toLowerCase()}`, type);
    await checkTwo();
    await checkRefused();
    await checkRepository();
    await checkStatistics();
    agent.destroy();
    console.log(`${checks} checks`);
}

main();
