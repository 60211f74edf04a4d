// RocketMQ's gRPC client for Node.js in one step of a test: a line of JSON for each thing that happens.
//
//   node rocketmq.js STEP '{"endpoints": ..., "topic": ..., ...}'
//
//   send       count                      messages with all their parts, each second one of a group
//   grouped    count                      messages of two groups in turn, some of them `again-…`
//   held       group                      one at a time is received of a message group, the first
//                                         of them is never acknowledged
//   late       count seconds recalls      messages for a later time; each second one is recalled
//   simple     group count kind expression  receive and acknowledge until so many have come; the
//                                         first one is changed
//   push       group count                the same pushed; each `again-…` fails once
//   half       count answer               of three half messages one is committed, one rolled back,
//                                         one left open until it is asked for; until a line comes in
//   through    group                      send, receive and acknowledge until a line comes in, then
//                                         until all that was sent is acknowledged
//   signed     group count user secret tls  send, receive and acknowledge as a user, or tell why not
//
// NODE_PATH says where the client is.

const client = require("rocketmq-client-nodejs");
const { FilterType, TransactionResolution } = require("rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb");

const [step, text] = process.argv.slice(2);
const given = JSON.parse(text);
const tell = (thing) => process.stdout.write("@" + JSON.stringify(thing) + "\n");
const silent = () => {};
const logger = { debug: silent, info: silent, warn: silent, error: (...told) => console.error(...told), close: silent };
const common = {
  endpoints: given.endpoints,
  namespace: "",
  logger,
  requestTimeout: 20000, // 3 s are few where all cores are busy
  sslEnabled: given.tls === true,
  ...(given.user ? { sessionCredentials: { accessKey: given.user, accessSecret: given.secret } } : {}),
};
const topic = given.topic;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const started = async (one) => {
  await one.startup();
  return one;
};
const producerOf = (more = {}) => started(new client.Producer({ ...common, topics: [topic], ...more }));
const consumerOf = (filter = client.FilterExpression.SUB_ALL, awaitDuration = 2000) =>
  started(new client.SimpleConsumer({
    ...common, consumerGroup: given.group, subscriptions: new Map([[topic, filter]]), awaitDuration,
  }));
const lineComesIn = () => new Promise((resolve) => process.stdin.once("data", resolve).once("end", resolve));

const partsOf = (one) => ({
  id: one.messageId,
  tag: one.tag,
  keys: one.keys.join(" "),
  group: one.messageGroup,
  colour: one.properties.get("colour"),
  attempt: one.deliveryAttempt,
  properties: Object.fromEntries(one.properties),
  corrupted: one.corrupted === true,
  due: one.deliveryTimestamp?.getTime(),
  delivered: one.transportDeliveryTimestamp?.getTime(),
});

async function send() {
  const producer = await producerOf();
  for (let number = 0; number < given.count; number++) {
    const receipt = await producer.send({
      topic,
      body: Buffer.from(`node-${number}`),
      tag: `tag${number % 2}`,
      keys: [`key-${number}`],
      properties: new Map([["colour", "grün"]]),
      ...(number % 2 ? { messageGroup: `group-${number % 4}` } : {}),
    });
    const { messageId, transactionId, offset } = receipt;
    tell({ sent: `node-${number}`, id: messageId, transaction: transactionId, offset });
  }
  await producer.shutdown();
}

async function grouped() {
  const producer = await producerOf();
  for (let number = 0; number < given.count; number++) {
    const group = number % 2 ? "a" : "b";
    const body = `${number % 7 === 3 ? "again" : "good"}-${number}-${group}`;
    await producer.send({ topic, body: Buffer.from(body), messageGroup: group });
    tell({ sent: body });
  }
  await producer.shutdown();
}

async function held() {
  const producer = await producerOf();
  const consumer = await consumerOf();
  const sendOne = (body) => producer.send({ topic, body: Buffer.from(body), messageGroup: "one" });
  const takeOne = async () => {
    const [message] = await consumer.receive(1, 60000);
    tell({ taken: message?.body.toString() });
    return message;
  };
  await sendOne("held");
  await takeOne();
  await sendOne("first");
  await sendOne("second");
  await consumer.ack(await takeOne());
  await consumer.ack(await takeOne());
  await consumer.shutdown();
  await producer.shutdown();
}

async function late() {
  const producer = await producerOf();
  for (let number = 0; number < given.count; number++) {
    const at = Date.now() + given.seconds * 1000 + number * 1300;
    const body = Buffer.from(`late-${number}`);
    const receipt = await producer.send({ topic, body, deliveryTimestamp: new Date(at) });
    const told = { sent: `late-${number}`, at };
    if (given.recalls && number % 2) {
      const recalled = await producer.recallMessage(topic, receipt.recallHandle);
      told.recalled = recalled.messageId === receipt.messageId;
    }
    tell(told);
  }
  await producer.shutdown();
}

async function simple() {
  const kinds = { TAG: FilterType.TAG, SQL: FilterType.SQL };
  const consumer = await consumerOf(new client.FilterExpression(given.expression, kinds[given.kind]));
  let isChanged = false;
  for (let done = 0; done < given.count; ) {
    for (const one of await consumer.receive(16, 30000)) {
      if (!isChanged) {
        isChanged = true;
        await consumer.changeInvisibleDuration(one, 60000);
        tell({ changed: one.body.toString() });
      }
      tell({ received: one.body.toString(), ...partsOf(one) });
      await consumer.ack(one);
      done += 1;
    }
  }
  tell({ more: (await consumer.receive(16, 30000)).length });
  await consumer.shutdown();
}

async function push() {
  const failed = new Set();
  let done = 0;
  const consume = async (one) => {
    const body = one.body.toString();
    tell({ consumed: body, attempt: one.deliveryAttempt });
    if (body.startsWith("again") && !failed.has(body)) {
      failed.add(body);
      return client.ConsumeResult.FAILURE;
    }
    done += 1;
    if (done === given.count) tell({ done: true });
    return client.ConsumeResult.SUCCESS;
  };
  const consumer = await started(new client.PushConsumer({
    ...common,
    consumerGroup: given.group,
    subscriptions: new Map([[topic, client.FilterExpression.SUB_ALL]]),
    messageListener: { consume },
  }));
  await lineComesIn(); // what came last is acknowledged meanwhile
  await consumer.shutdown();
}

async function half() {
  const check = async (one) => {
    tell({ checked: one.body.toString(), topic: one.topic, ...partsOf(one) });
    return TransactionResolution[given.answer];
  };
  const producer = await producerOf({ checker: { check } });
  for (let number = 0; number < given.count; number++) {
    const transaction = producer.beginTransaction();
    const receipt = await producer.send({
      topic,
      body: Buffer.from(`half ${number}`),
      tag: "tag",
      keys: [`key-${number}`],
      properties: new Map([["colour", "grün"]]),
    }, transaction);
    tell({ sent: `half ${number}`, id: receipt.messageId, transaction: receipt.transactionId });
    if (number % 3 === 0) await transaction.commit();
    if (number % 3 === 1) await transaction.rollback();
  }
  await lineComesIn();
  await producer.shutdown();
}

async function through() {
  const producer = await producerOf();
  const consumer = await consumerOf();
  const sent = new Set();
  const acknowledged = new Set();
  let isOver = false;
  lineComesIn().then(() => { isOver = true; });
  const isDone = () => isOver && [...sent].every((one) => acknowledged.has(one));
  const receiving = async () => {
    while (!isDone()) {
      try {
        for (const one of await consumer.receive(16, 10000)) {
          await consumer.ack(one);
          acknowledged.add(one.body.toString());
          tell({ received: one.body.toString() });
        }
      } catch (error) {
        tell({ failed: String(error) });
        await pause(100);
      }
    }
  };
  const sending = async () => {
    for (let number = 0; !isOver; number++) {
      try {
        await producer.send({ topic, body: Buffer.from(`through-${number}`) });
        sent.add(`through-${number}`);
        tell({ sent: `through-${number}` });
      } catch (error) {
        tell({ failed: String(error) });
        await pause(100);
      }
    }
  };
  await Promise.all([sending(), receiving(), receiving(), receiving()]);
  tell({ left: [...sent].filter((one) => !acknowledged.has(one)).length });
}

async function signed() {
  // Without topics: startup() would tell that their routes failed, and not why.
  const producer = await producerOf({ topics: [] });
  for (let number = 0; number < given.count; number++) {
    await producer.send({ topic, body: Buffer.from(`ü${number}`) });
    tell({ sent: number });
  }
  const consumer = await consumerOf();
  for (let left = given.count; left > 0; ) {
    for (const one of await consumer.receive(16, 30000)) {
      await consumer.ack(one);
      tell({ body: one.body.toString() });
      left -= 1;
    }
  }
  await consumer.shutdown();
  await producer.shutdown();
  tell({ done: true });
}

({ send, grouped, held, late, simple, push, half, through, signed })[step]().then(
  () => process.exit(0),
  (error) => {
    const cause = error.cause ?? error;
    tell({ refused: error.message, kind: cause.name, code: cause.code, why: cause.message });
    process.exit(given.isRefused ? 0 : 1);
  },
);
