// One step of a test with a client for Node.js, printed as a JSON line for each thing that happened.
//
//   node steps.js CLIENT STEP '{"brokers": [...], "topic": ..., "group": ..., "count": ...}'
//
// Both clients have KafkaJS's classes; Confluent's takes the settings one level deeper, and some of
// them where the client is made instead of where it is used.
//
// NODE_PATH says where the client is.

const [name, step, text] = process.argv.slice(2);
const given = JSON.parse(text);
const isConfluent = name === "confluent";
const library = isConfluent
  ? require("@confluentinc/kafka-javascript").KafkaJS
  : require("kafkajs");
const wrapped = (settings) => (isConfluent ? { kafkaJS: settings } : settings);
const say = (thing) => process.stdout.write(JSON.stringify(thing) + "\n");
const kafka = new library.Kafka(
  wrapped({
    clientId: `node-${name}`,
    brokers: given.brokers,
    logLevel: library.logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
    requestTimeout: 5000,
  }),
);

async function topics() {
  const admin = kafka.admin();
  await admin.connect();
  const topic = { topic: given.topic, numPartitions: 3, replicationFactor: given.replicas };
  say({ created: await admin.createTopics({ topics: [topic] }) });
  say({ again: await admin.createTopics({ topics: [topic] }) });
  say({ topics: await admin.listTopics() });
  const found = await admin.fetchTopicMetadata({ topics: [given.topic] });
  const [described] = isConfluent ? found : found.topics;
  say({ replicas: described.partitions.map((one) => one.replicas.length) });
  await admin.disconnect();
}

async function remove() {
  const admin = kafka.admin();
  await admin.connect();
  const offsets = await admin.fetchTopicOffsets(given.topic);
  say({ end: offsets.reduce((sum, one) => sum + Number(one.high), 0) });
  await admin.deleteTopics({ topics: [given.topic] });
  say({ topics: await admin.listTopics() });
  await admin.disconnect();
}

async function produce() {
  // Until the input ends: batches of ten, each numbered on, each printed when it is acknowledged.
  // One partition at a time: of a batch for several KafkaJS forgets what has moved to a broker that
  // has answered already, and calls it sent.
  let isOver = false;
  process.stdin.on("data", () => {}).on("end", () => { isOver = true; });
  const settings = { idempotent: true, maxInFlightRequests: 1 };
  const producer = kafka.producer(wrapped(isConfluent ? { ...settings, acks: -1 } : settings));
  await producer.connect();
  for (let number = 0; !isOver; number += 10) {
    const values = Array.from({ length: 10 }, (_, at) => String(number + at));
    const partition = (number / 10) % 3;
    const headers = { from: name };
    const messages = values.map((value) => ({ key: value, value, partition, headers }));
    const acks = isConfluent ? {} : { acks: -1 };
    await producer.send({ topic: given.topic, messages, ...acks });
    say({ acked: values });
  }
  await producer.disconnect();
}

async function consume() {
  // Read `count` records as a member of a group, and commit behind the last of each partition.
  const earliest = { fromBeginning: true };
  const settings = { groupId: given.group, sessionTimeout: 10000, autoCommit: false };
  const consumer = isConfluent
    ? kafka.consumer(wrapped({ ...settings, ...earliest }))
    : kafka.consumer({ ...settings, maxWaitTimeInMs: 500 });
  await consumer.connect();
  await consumer.subscribe({ topics: [given.topic], ...(isConfluent ? {} : earliest) });
  const ends = new Map();
  let taken = 0;
  await new Promise((resolve, reject) => {
    const options = isConfluent ? {} : { autoCommit: false };
    const eachMessage = async ({ topic, partition, message }) => {
      if (taken === given.count) return;
      ends.set(partition, { topic, partition, offset: String(Number(message.offset) + 1) });
      say({ value: message.value.toString(), from: message.headers.from.toString() });
      taken += 1;
      if (taken === given.count) resolve();
    };
    consumer.run({ ...options, eachMessage }).catch(reject);
  });
  await consumer.commitOffsets([...ends.values()]);
  await consumer.disconnect();
}

({ topics, remove, produce, consume })[step]().then(
  () => process.exit(0),
  (error) => {
    say({ error: String(error.stack) });
    process.exit(1);
  },
);
