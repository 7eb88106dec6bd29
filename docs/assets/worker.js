// Search in pages that are opened from a folder, where browsers refuse to start a worker: a hidden
// frame runs its script instead. Pages of a server keep the browser's own workers.

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const run = (source) =>
        new Promise((loaded, failed) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: source, onload: loaded, onerror: failed });
          inside.document.body.append(script);
        });
      inside.importScripts = (...sources) =>
        sources.reduce((done, source) => done.then(() => run(source)), Promise.resolve());
      this._loaded = run(new URL(url, document.baseURI).href);
      this._inside = inside;
    }

    postMessage(data) {
      this._loaded.then(() =>
        this._inside.dispatchEvent(new this._inside.MessageEvent("message", { data })),
      );
    }
  };
}
